"""Elementwise ops: propagation of operand errors, the op's own rounding, and what overflows (rules 2 to 4, 7).

Every op has a fast path, which is right as long as everything is finite and within range, and a careful path
(`careful.py`), which is taken as soon as one element is not. Where the operands' extents are known, so is
whether that can happen (`foresight.py`); else the extremes of result and error are looked at.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from gpuemu.reference.bounded import Bounded
from gpuemu.reference.careful import careful_error
from gpuemu.reference.certificate import certify
from gpuemu.reference.constants import both_signs
from gpuemu.reference.extent import Extent, is_positive, mark, mark_positive, measure, to_numbers, union
from gpuemu.reference.foresight import foresee
from gpuemu.reference.pieces import Piece, cut, pieces
from gpuemu.reference.step import (
    WIDE,
    Function,
    Loss,
    Operand,
    Propagate,
    Step,
    corner_values,
    own_error,
)

if TYPE_CHECKING:
    from gpuemu.reference.dispatch import Evaluation

Tensor = torch.Tensor


def elementwise(
    evaluation: Evaluation,
    function: Function,
    operands: Sequence[Operand],
    loss: Loss,
    propagate: Propagate | None = None,
    raw: bool = False,
) -> Bounded:
    """Value and error of an elementwise function.

    Args:
        propagate: closed form of the propagated error; None evaluates the corners of the operands' intervals.
        raw: whether the result holds storage numbers.
    """
    arithmetic = evaluation.arithmetic
    values, errors = [value for value, _ in operands], [error for _, error in operands]
    result = function(*values)
    positive = loss.positive == "always" or (loss.positive is not None and all(map(is_positive, values)))
    if positive:
        mark_positive(result)
    extent, widest = foresee(arithmetic, loss, operands)
    step = Step(arithmetic, values, errors, result, widest, extent)
    if not loss.units and step.is_exact:
        mark(result, None, extent)
        return Bounded(evaluation, result, None, raw)
    error = error_of(step, function, loss, propagate)
    if loss.pole and step.extent is None:  # which at -0 may have been met
        mark_positive(result, False)
    mark(result, error, step.extent)
    return Bounded(evaluation, result, error)


def error_of(step: Step, function: Function, loss: Loss, propagate: Propagate | None) -> Tensor | None:
    """The error of a step's result; None if it is exact. Large results are worked on in pieces.

    Afterwards the step's extent is that of the result if it was foreseen or found, else None.
    """
    result = step.result
    cuts = pieces(result)
    if cuts is None:
        return _error_of_piece(step, function, loss, propagate)
    total: Tensor | None = None
    done: list[Piece] = []
    extents: list[Extent | None] = []
    for piece in cuts:
        part = Step(
            step.arithmetic,
            [cut(value, result.dim(), piece) for value in step.values],
            [cut(error, result.dim(), piece) for error in step.errors],
            result.narrow(*piece),
            step.widest,
            step.extent,
        )
        place = None if total is None else total.narrow(*piece)
        error = _error_of_piece(part, function, loss, propagate, place)
        if error is not None and total is None:
            total = torch.empty_like(result)
            place = total.narrow(*piece)
            for exact in done:
                total.narrow(*exact).zero_()
        if place is not None and error is not place:
            place.copy_(torch.zeros_like(place) if error is None else error)
        done.append(piece)
        extents.append(part.extent)
    step.extent = union(extents)
    return total


def _error_of_piece(
    step: Step, function: Function, loss: Loss, propagate: Propagate | None, out: Tensor | None = None
) -> Tensor | None:
    """The error, in `out` (where given) if all is in range; None if the piece is exact."""
    error: Tensor | None
    if loss.units and step.is_exact and not (loss.perturbed or loss.margin or (loss.partial and propagate)):
        error = own_error(step, loss, out)
        settled = step.extent is not None or _settle_by_error(step, error, loss)
        if loss.certificate:
            error = certify(step, error)
            if error is None:
                return None
        if settled or _settle(step, error, loss):
            return error
    else:
        error = _propagated(step, function, loss, propagate, out)
        if error is not None and _is_settled(step, error, loss):
            return error
    step.extent = None
    return careful_error(step, function, loss)


def _propagated(
    step: Step, function: Function, loss: Loss, propagate: Propagate | None, out: Tensor | None
) -> Tensor | None:
    """The op's own error and what its operands' add; None where the closed form does not hold."""
    followed = step
    if loss.perturbed:
        followed = step.perturbed() if not loss.partial or step.widest is None else step
        if not followed.is_within(sys.float_info.max):
            return None
    elif step.extent is None and step.widest is None:
        # No operand may be any number or NaN: a bounded function of such a one may be NaN too.
        step.demand_known()
    if loss.partial:
        step.widest, followed = followed.widest, step
        error = torch.empty_like(step.result) if out is None else out
    elif propagate is None and not loss.units:
        return deviation_of(function, step, out)
    else:
        error = own_error(followed, loss, out)
    if loss.dip and not followed.is_within(WIDE):
        return None
    if not (propagate or corners_of(function))(followed, error):
        return None
    step.demands += followed.demands if followed is not step else []
    if step.arithmetic.is_coarse:  # what is rounded is the result with its error
        error.mul_(1.0 + loss.units * step.arithmetic.unit_roundoff)
    return error


def _is_settled(step: Step, error: Tensor, loss: Loss) -> bool:
    """Whether the closed form's demands are met, and result and error in range; in one look if possible."""
    if step.extent is not None and not step.demands:
        return True
    if step.extent is None and not loss.partial and loss.units and error.numel():
        largest, *numbers = to_numbers([error.max(), *(number for number, _, _ in step.demands)])
        in_range = _settle_within(step, largest, loss)
    else:
        numbers, in_range = to_numbers([number for number, _, _ in step.demands]), step.extent is not None
    for number, (_, least, most) in zip(numbers, step.demands, strict=True):
        if not least <= number <= most:
            return False
    return in_range or _settle(step, error, loss)


def _settle_by_error(step: Step, error: Tensor, loss: Loss) -> bool:
    """Whether the result must be in range, since its error, at least units * u * |result|, is small."""
    if not loss.units or error.numel() == 0:
        return False
    return _settle_within(step, float(error.max()), loss)


def _settle_within(step: Step, largest: float, loss: Loss) -> bool:
    reach = largest * (1.0 + 1.0 / (loss.units * step.arithmetic.unit_roundoff))
    if not reach * loss.headroom <= step.arithmetic.overflow:
        return False
    step.extent = Extent(reach, largest)
    return True


def _settle(step: Step, error: Tensor, loss: Loss) -> bool:
    """Whether result and error are in range, by their extremes."""
    extent = measure(step.result, error)
    if extent is None or not loss.headroom * extent.reach <= step.arithmetic.overflow:
        return False
    step.extent = extent
    return True


def corners_of(function: Function) -> Propagate:
    """Propagation by two-sided evaluation: exact for functions monotone in each argument (rule 2)."""

    def propagate(step: Step, error: Tensor) -> bool:
        deviation = deviation_of(function, step)
        if deviation is not None:
            error.add_(deviation)
        return True

    return propagate


def deviation_of(function: Function, step: Step, out: Tensor | None = None) -> Tensor | None:
    """The largest distance of the function at the corners from the result; None if all operands are exact."""
    uncertain = [i for i, e in enumerate(step.errors) if e is not None]
    if len(uncertain) == 1:
        return _one_sided(function, step, uncertain[0], out)
    deviation: Tensor | None = None
    for corner in corner_values(function, step.values, step.errors) if uncertain else ():
        distance = corner.sub_(step.result).abs_()
        deviation = distance if deviation is None else torch.maximum(deviation, distance, out=deviation)
    return deviation


def _one_sided(function: Function, step: Step, uncertain: int, out: Tensor | None = None) -> Tensor:
    """The deviation at the two ends of the only uncertain operand's interval, in one call of the function."""
    value, reach, dims = step.values[uncertain], step.errors[uncertain], step.result.dim()
    if reach is None:
        raise TypeError("an exact operand has no interval")
    signs = both_signs(dims, step.result.device)
    ends = (
        torch.addcmul(value, signs, reach)
        if isinstance(value, Tensor) and reach.dim()
        else signs * reach + value
    )
    values = [ends if i == uncertain else v for i, v in enumerate(step.values)]
    above, below = function(*values).sub_(step.result).abs_().unbind(0)
    return torch.maximum(above, below, out=out)
