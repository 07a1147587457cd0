"""The rules of other projects, each with its source and the reference that it compares with (ORACLE.md 1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from gpuemu.oracle.baselines.comparison import ABSTAINS, Comparison, Ruling, elementwise

Tensor = torch.Tensor


@dataclass(frozen=True)
class Rule:
    """A named rule. against: which reference it uses. source: where it is published."""

    name: str
    judge: Callable[[Comparison], Ruling]
    against: str
    source: str


# Absolute tolerances of the published corpus per op, for float32 and for 16 bits; 0 rtol. Ops that it lacks
# have none.
_ELEMENTWISE = (1e-4, 5e-2)
PUBLISHED_ABSOLUTE: dict[str, tuple[float, float]] = {
    "softmax": (1e-5, 2e-2),
    "relu": (1e-5, 1e-3),
    "leaky_relu": (1e-5, 1e-3),
    "matmul": (5e-2, 5e-2),
    "attention": (1e-3, 5e-2),
    "flash_attention": (1e-3, 5e-2),
    **dict.fromkeys(("rmsnorm", "l2norm", "layernorm", "gelu", "silu", "sigmoid", "elu", "tanh"), _ELEMENTWISE),
}
# rtol, atol per dtype (torch/testing/_comparison.py).
_ASSERT_CLOSE = {"float32": (1.3e-6, 1e-5), "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5)}
FLASHINFER_RATIO = 0.95
FLASH_ATTENTION_SHIFT = 0.3


def _against_native(tolerance: Callable[[str], tuple[float, float]]) -> Callable[[Comparison], Ruling]:
    """allclose with (rtol, atol) per dtype, against torch in the storage dtype."""

    def judge(comparison: Comparison) -> Ruling:
        if comparison.native is None:
            return ABSTAINS
        rtol, atol = tolerance(comparison.dtype)
        return elementwise(comparison.actual, comparison.native, atol, rtol)

    return judge


def _kernelbench(dtype: str) -> tuple[float, float]:
    return (1e-4, 1e-4) if dtype == "float32" else (1e-2, 1e-2)


def _ratio(error: float, allowed: float) -> float:
    """error / allowed; 0 for no error at all, infinite where nothing is allowed, or one of them is NaN."""
    if error == 0:
        return 0.0
    return error / allowed if allowed > 0 and not math.isnan(error) else math.inf


def _flash_attention(comparison: Comparison) -> Ruling:
    """max |actual - r| <= 2 max |torch - r| + 2 max |r + 0.3 - 0.3 - r|, r the reference in float32."""
    if comparison.native is None:
        return ABSTAINS
    worst = Ruling(True)
    for number, triple in enumerate(zip(comparison.actual, comparison.native, comparison.exact, strict=True)):
        actual, native, exact = (x.double() for x in triple)
        if actual.numel() == 0 or not triple[0].is_floating_point() or triple[0].element_size() == 1:
            continue  # the rule has no meaning for integers, and torch cannot add 8-bit floats
        shifted = triple[1].new_tensor(FLASH_ATTENTION_SHIFT)
        stored = exact.to(triple[1].dtype)
        granularity = ((stored + shifted - shifted).double() - stored.double()).abs().max()
        allowed = float(2.0 * (native - exact).abs().max() + 2.0 * granularity)
        error = (actual - exact).abs().reshape(-1)
        at = int(error.nan_to_num(nan=torch.inf).argmax())
        # NaN, on either side, passes no comparison.
        score = _ratio(float(error.max()), allowed)
        if score > worst.score or not score <= 1.0:
            pair = (float(actual.reshape(-1)[at]), float(exact.reshape(-1)[at]))
            worst = Ruling(score <= 1.0, score, number, at, *pair, allowed)
    return worst


def _flashinfer(comparison: Comparison) -> Ruling:
    """1e-2 / 1e-2 for a share of 95 % of the elements; the score is of the element at that share."""
    if comparison.native is None:
        return ABSTAINS
    worst = Ruling(True)
    for number, (left, right) in enumerate(zip(comparison.actual, comparison.native, strict=True)):
        if left.shape != right.shape:
            return Ruling(False, torch.inf, number)
        if left.numel() == 0:
            continue
        a, b = left.double().reshape(-1), right.double().reshape(-1)
        tolerance = 1e-2 + 1e-2 * b.abs()
        ratio = torch.where(a == b, 0.0, ((a - b).abs() / tolerance).nan_to_num(nan=torch.inf))
        ordered, places = ratio.sort()
        last = min(len(ordered) - 1, -(-int(FLASHINFER_RATIO * 10_000) * len(ordered) // 10_000) - 1)
        score, at = float(ordered[last]), int(places[last])
        if score > worst.score:
            pair = (float(a[at]), float(b[at]))
            worst = Ruling(score <= 1.0, score, number, at, *pair, float(tolerance[at]))
    return worst


def _dynamo(comparison: Comparison) -> Ruling:
    """allclose, else RMSE(actual, r64) <= m RMSE(torch, r64) + tol/10, m = 2 in float32 and 3 in 16 bits."""
    if comparison.native is None:
        return ABSTAINS
    tolerance = 1e-4 if comparison.dtype == "float32" else 1e-2
    close = elementwise(comparison.actual, comparison.native, tolerance, tolerance, equal_nan=True)
    if close.accepts:
        return close
    factor = 2.0 if comparison.dtype == "float32" else 3.0
    worst = Ruling(True)
    for number, triple in enumerate(zip(comparison.actual, comparison.native, comparison.exact, strict=True)):
        actual, native, exact = (x.double() for x in triple)
        own, other = (float((x - exact).square().mean().sqrt()) for x in (actual, native))
        allowed = (3.0 if exact.numel() < 1000 else factor) * other + tolerance / 10.0
        score = _ratio(own, allowed)
        if score > worst.score:
            worst = Ruling(score <= 1.0, score, number, close.index, close.actual, close.expected, allowed)
    return worst


def _absolute(comparison: Comparison, tolerance: float | None) -> Ruling:
    """|actual - reference cast to the dtype| <= tolerance; NaN or infinity in the output fails."""
    if tolerance is None:
        return ABSTAINS
    stored = tuple(
        exact.to(actual.dtype) for actual, exact in zip(comparison.actual, comparison.exact, strict=True)
    )
    ruling = elementwise(comparison.actual, stored, tolerance, 0.0)
    for number, actual in enumerate(comparison.actual):
        wrong = ~actual.isfinite()
        if bool(wrong.any()):
            at = int(wrong.reshape(-1).to(torch.uint8).argmax())
            pair = (float(actual.reshape(-1)[at]), float(stored[number].reshape(-1)[at]))
            return Ruling(False, torch.inf, number, at, *pair, tolerance)
    return ruling


def _published(comparison: Comparison) -> Ruling:
    pair = PUBLISHED_ABSOLUTE.get(comparison.op)
    return _absolute(comparison, None if pair is None else pair[comparison.dtype != "float32"])


def _calibrated(comparison: Comparison) -> Ruling:
    return _absolute(comparison, comparison.thresholds.get(f"{comparison.op} {comparison.dtype}"))


NATIVE, EXACT = "torch in the storage dtype", "float64"
BOTH = f"{NATIVE} and {EXACT}"
RULES: tuple[Rule, ...] = (
    Rule("kernelbench", _against_native(_kernelbench), NATIVE, "KernelBench src/kernelbench/eval.py"),
    Rule("kernelbench_v0", _against_native(lambda _: (1e-2, 1e-2)), NATIVE, "KernelBench v0: 1e-2 everywhere"),
    Rule(
        "assert_close",
        _against_native(_ASSERT_CLOSE.__getitem__),
        NATIVE,
        "torch.testing.assert_close defaults",
    ),
    Rule(
        "flash_attention",
        _flash_attention,
        BOTH,
        "flash-attention hopper/test_flash_attn.py",
    ),
    Rule("flashinfer_bench", _flashinfer, NATIVE, "flashinfer-bench: 1e-2 / 1e-2, 95 % of the elements"),
    Rule("backendbench", _against_native(lambda _: (1e-2, 1e-2)), NATIVE, "BackendBench: 1e-2 / 1e-2"),
    Rule("dynamo_same", _dynamo, BOTH, "torch/_dynamo/utils.py same()"),
    Rule("published_absolute", _published, EXACT, "arXiv 2606.20128: hand-picked atol per (op, dtype)"),
    Rule("p95x1.5", _calibrated, EXACT, "study P2 of the same: 1.5 x the 95th percentile of passing controls"),
)
