"""What may stand where NaN and infinities are involved (ORACLE.md section 3)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gpuemu.model.contract import NanPolicy


@dataclass(frozen=True)
class Masks:
    """The elements of one output that the plain interval test does not settle; None where there are none.

    unjudged: any value is legitimate (rules 1 and 3, and integers made from a non-finite value, rule 6).
    expects_nan: NaN is due because an input NaN reaches the element (rule 2).
    permits_nan: an infinity is due, and NaN is accepted since some input was infinite (rule 4).
    All are bool tensors of the output's shape.
    """

    unjudged: torch.Tensor | None = None
    expects_nan: torch.Tensor | None = None
    permits_nan: torch.Tensor | None = None

    def part(self, chunk: slice) -> Masks:
        """The masks of a range of elements in row-major order."""
        masks = (self.unjudged, self.expects_nan, self.permits_nan)
        return Masks(*(None if mask is None else mask.reshape(-1)[chunk] for mask in masks))


def classify(
    value: torch.Tensor,
    bound: torch.Tensor,
    expects_nan: torch.Tensor | None,
    infinite_input: bool,
    integer_output: bool = False,
) -> Masks:
    """Sort the elements of one output into the masks above.

    Args:
        value, bound: of an `ExpectedOutput`.
        expects_nan: its mask of NaN that comes from an input NaN. Rule 1 comes first: where the bound is inf or
            NaN, nothing is expected.
        infinite_input: whether some input held an infinity.
        integer_output: the storage dtype is an integer or bool.
    """
    unjudged = ~(bound < torch.inf)  # inf or NaN
    expected = permitted = None
    if value.is_floating_point():
        nan = value.isnan()
        if integer_output:
            unjudged |= ~value.isfinite()
        elif expects_nan is None:
            unjudged |= nan
        else:
            unjudged |= nan & ~expects_nan
            expected = _if_any(nan & ~unjudged)
        if infinite_input and not integer_output:
            permitted = _if_any(value.isinf() & ~unjudged)
    return Masks(_if_any(unjudged), expected, permitted)


def allow(inside: torch.Tensor, actual: torch.Tensor, masks: Masks, nan: NanPolicy = "report") -> torch.Tensor:
    """The interval test's result, amended where the masks say so.

    Args:
        inside: whether each element of `actual` lies in its interval; false for NaN.
        nan: under "propagate" an element that should be NaN and is not is refused; else it is let through, and
            `swallowed` tells.
    """
    if masks.unjudged is not None:
        inside = inside | masks.unjudged
    if masks.expects_nan is not None:
        kept = masks.expects_nan & actual.isnan() if nan == "propagate" else masks.expects_nan
        inside = inside | kept
    if masks.permits_nan is not None:
        inside = inside | (masks.permits_nan & actual.isnan())
    return inside


def swallowed(actual: torch.Tensor, masks: Masks) -> int:
    """How many elements should be NaN and are not (class NAN_SEMANTICS of rule 2)."""
    if masks.expects_nan is None:
        return 0
    return int((masks.expects_nan & ~actual.isnan()).sum())


def _if_any(mask: torch.Tensor) -> torch.Tensor | None:
    return mask if bool(mask.any()) else None
