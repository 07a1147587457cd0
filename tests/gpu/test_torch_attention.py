"""Two faults of torch that our controls found, each with NaN where float32 arithmetic has none.

SDPA's efficient backend: a key that is to have weight 0, since an infinity makes its score -inf, turns its rows
into NaN (torch 2.11 on an H200), as the split of a float32 number into several of tf32 does (infinity -
infinity); the largest finite number does no harm. Hence that backend is no control in float32
(`gpuemu.corpus.population.libraries`).

torch.compile: a softmax of scaled scores, where these are large (`gpuemu.corpus.population.compiled`).
"""

from __future__ import annotations

import pytest
import torch

import gpuemu
from gpuemu.corpus.population.libraries import attention_by

pytestmark = pytest.mark.gpu


def rows(backend: str, extreme: float, dtype: torch.dtype) -> torch.Tensor:
    """Attention of 8 queries of ones; one key of 16 has a negative extreme, so its weight is 0."""
    q = torch.ones(8, 32, device="cuda", dtype=dtype)
    k, v = torch.ones(16, 32, device="cuda", dtype=dtype), torch.ones(16, 32, device="cuda", dtype=dtype)
    k[3, 5] = -extreme
    result: torch.Tensor = attention_by(backend)(q, k, v)
    return result


@pytest.mark.parametrize("backend", ["MATH", "EFFICIENT_ATTENTION"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_in_16_bits_a_key_of_weight_zero_does_nothing(backend: str, dtype: torch.dtype) -> None:
    assert torch.equal(rows(backend, torch.inf, dtype), torch.ones(8, 32, device="cuda", dtype=dtype))


def test_a_finite_extreme_does_nothing_in_float32() -> None:
    extreme = torch.finfo(torch.float32).max
    assert torch.equal(rows("EFFICIENT_ATTENTION", extreme, torch.float32), torch.ones(8, 32, device="cuda"))


def test_gpuemu_finds_what_an_infinity_does() -> None:
    expected = torch.ones(8, 32, device="cuda")
    assert torch.equal(rows("MATH", torch.inf, torch.float32), expected)
    is_right = torch.equal(rows("EFFICIENT_ATTENTION", torch.inf, torch.float32), expected)
    report = gpuemu.check(
        attention_by("EFFICIENT_ATTENTION"),
        "attention",
        budget=48,
        seed=5,
        device="cuda",
        store=False,
        shrink=False,
        dtypes=["float32"],
        value_classes=["sparse_nonfinite"],
    )
    kinds = {record.verdict.kind for record in report.failures}
    assert is_right or "nonfinite" in kinds


def softmax_of_scaled(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x * 0.3, -1)


def test_gpuemu_finds_what_a_fused_scale_does() -> None:
    op = gpuemu.Op("scaled_softmax", {"x": "B H"}, {"B": (1, 8), "H": (2, 64)}, softmax_of_scaled)
    x = torch.linspace(-1e14, 1e14, 60, device="cuda").reshape(2, 30)
    is_right = bool(torch.compile(softmax_of_scaled)(x).isfinite().all())
    assert bool(softmax_of_scaled(x).isfinite().all())
    reports = [
        gpuemu.check(
            function, op, budget=32, seed=5, device="cuda", store=False, shrink=False,
            dtypes=["float32"], value_classes=["sparse_adversarial"],
        )
        for function in (softmax_of_scaled, torch.compile(softmax_of_scaled))
    ]  # fmt: skip
    assert not reports[0].failures
    assert is_right or "nonfinite" in {record.verdict.kind for record in reports[1].failures}
