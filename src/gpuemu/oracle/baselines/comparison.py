"""What a baseline rule is given to judge, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

Tensor = torch.Tensor


@dataclass(frozen=True)
class Comparison:
    """One case's outputs beside the references that the rules use.

    actual: what the candidate returned. native: the op's reference run by torch in the storage dtype, as most
    projects do; None where torch cannot. exact: the float64 reference. op, dtype: names. thresholds: absolute
    tolerances per "op dtype", of a calibration.
    """

    actual: tuple[Tensor, ...]
    native: tuple[Tensor, ...] | None
    exact: tuple[Tensor, ...]
    op: str
    dtype: str
    thresholds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Ruling:
    """What a rule says.

    accepts: None where the rule cannot judge (no native reference, no threshold). score: error over tolerance
    of the element that decides, so that rules can be rescaled; the rest describes it: output, row-major index,
    actual and expected value, and the tolerance there.
    """

    accepts: bool | None
    score: float = 0.0
    output: int = 0
    index: int = -1
    actual: float = 0.0
    expected: float = 0.0
    tolerance: float = 0.0


ABSTAINS = Ruling(None)


def elementwise(
    actual: tuple[Tensor, ...], expected: tuple[Tensor, ...], atol: float, rtol: float, equal_nan: bool = False
) -> Ruling:
    """|actual - expected| <= atol + rtol |expected| for every element, as `torch.allclose` has it."""
    worst = Ruling(True)
    for number, (left, right) in enumerate(zip(actual, expected, strict=True)):
        if left.shape != right.shape:
            return Ruling(False, torch.inf, number)
        found = _worst_element(left.double(), right.double(), atol, rtol, equal_nan)
        if found is not None and found[0] > worst.score:
            worst = Ruling(found[0] <= 1.0, found[0], number, *found[1:])
    return worst


def _worst_element(
    left: Tensor, right: Tensor, atol: float, rtol: float, equal_nan: bool
) -> tuple[float, int, float, float, float] | None:
    if left.numel() == 0:
        return None
    tolerance = atol + rtol * right.abs()
    same = (left == right) | ((left.isnan() & right.isnan()) if equal_nan else torch.zeros_like(left).bool())
    ratio = ((left - right).abs() / tolerance).nan_to_num(nan=torch.inf)
    # Next to an infinite expectation the tolerance is infinite too, but nothing finite is close to it.
    ratio = torch.where(left.isfinite() & right.isfinite(), ratio, torch.inf).masked_fill(same, 0.0).reshape(-1)
    at = int(ratio.argmax())
    numbers = (float(column.reshape(-1)[at]) for column in (left, right, tolerance.expand_as(left)))
    actual, expected, allowed = numbers
    return float(ratio[at]), at, actual, expected, allowed
