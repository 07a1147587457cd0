"""Ops without one right answer, judged by residuals of what the candidate returned (ORACLE.md section 2.5)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gpuemu.model.case import Case
from gpuemu.model.expected import Expected
from gpuemu.model.observation import Observation
from gpuemu.model.op import Op
from gpuemu.model.verdict import ErrorDistribution, Flag, Kind, Status, Verdict
from gpuemu.oracle.compare import SUSPICIOUS_SCORE, judge_form

Ratios = list[tuple[str, float]]


def judge(
    op: Op, case: Case, observation: Observation, inputs: Mapping[str, torch.Tensor], outline: Expected
) -> Verdict:
    """Decide about one case: structure first, then every residual against the op's limit.

    Args:
        outline: what shapes and dtypes are due. The residual sees floats in float64.
    """
    verdict = judge_form(observation, outline)
    if verdict is not None:
        return verdict
    profile = outline.profile
    if not all(bool(x.isfinite().all()) for x in inputs.values() if x.is_floating_point()):
        return Verdict(
            Status.INCONCLUSIVE, message="an input is not finite, so no residual is due", profile=profile
        )
    try:
        ratios = measure(op, case, inputs, observation.outputs)
    except Exception as error:  # whatever user code raises
        text = f"the residual raised {type(error).__name__}: {' '.join(str(error).split())}"
        return Verdict(Status.INVALID, message=text, profile=profile)
    if not ratios:
        return Verdict(Status.INCONCLUSIVE, message="the residual gives no ratio", profile=profile)
    return _decide(ratios, op.residual_limit, profile)


def measure(op: Op, case: Case, inputs: Mapping[str, torch.Tensor], outputs: Sequence[torch.Tensor]) -> Ratios:
    """The residuals by name, in the op's order.

    Raises:
        TypeError: the op's function returns something else than numbers, or raises itself.
    """
    if op.residual is None:
        raise TypeError(f"op {op.name!r} has no residual")
    wide = {name: _to_float64(x) for name, x in inputs.items()}
    with torch.no_grad():
        found = op.residual(wide, tuple(_to_float64(y) for y in outputs), case.params)
    return list(_flatten("residual", found))


def _to_float64(x: torch.Tensor) -> torch.Tensor:
    return x.detach().double() if x.is_floating_point() else x.detach()


def _flatten(name: str, found: Any) -> Ratios:
    """Numbers, tensors of them, and lists or mappings of those, each with a name."""
    if isinstance(found, Mapping):
        return [pair for key, part in found.items() for pair in _flatten(str(key), part)]
    if isinstance(found, (list, tuple)):
        return [pair for i, part in enumerate(found) for pair in _flatten(f"{name} {i}", part)]
    if isinstance(found, torch.Tensor):
        flat = found.detach().reshape(-1).tolist()
        return [(name if len(flat) == 1 else f"{name} {i}", float(ratio)) for i, ratio in enumerate(flat)]
    if isinstance(found, (int, float)):
        return [(name, float(found))]
    raise TypeError(f"a residual is a number or a tensor, not a {type(found).__name__}")


def _decide(ratios: Ratios, limit: float, profile: str) -> Verdict:
    # NaN compares false with everything, so it is sorted to the end by hand.
    name, worst = max(ratios, key=lambda pair: math.inf if math.isnan(pair[1]) else abs(pair[1]))
    exceeding = sum(not abs(ratio) <= limit for _, ratio in ratios)
    score = math.inf if math.isnan(worst) else abs(worst) / limit
    errors = ErrorDistribution(len(ratios), len(ratios), exceeding, score, abs(worst), 0.0)
    if exceeding:
        count = f"{exceeding} of {len(ratios)} residuals exceed {limit:g}"
        message = f"{count}: {name} is {worst:.6g} (a backward stable algorithm stays near 1)"
        return Verdict(Status.FAIL, Kind.VALUE, message, profile, errors=errors)
    flags = (Flag.SUSPICIOUS,) if score > SUSPICIOUS_SCORE else ()
    remark = f"{name} is {worst:.3g}, the limit is {limit:g}" if flags else ""
    return Verdict(Status.PASS, message=remark, profile=profile, errors=errors, flags=flags)
