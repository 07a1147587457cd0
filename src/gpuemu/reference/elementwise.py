"""Elementwise ops: propagation of operand errors, the op's own rounding, and what overflows (rules 2 to 4, 7).

Every op has a fast path, which is right as long as everything is finite and within range, and a careful path
(`careful.py`), which is taken as soon as one element is not. Where the operands' extents are known, so is
whether that can happen (`foresight.py`); else the extremes of result and error are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from gpuemu.reference.bounded import Bounded
from gpuemu.reference.careful import careful_error
from gpuemu.reference.certificate import certify
from gpuemu.reference.extent import Extent, mark, measure, to_numbers, union
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
    extent, widest = foresee(arithmetic, loss, operands)
    step = Step(arithmetic, values, errors, result, widest, extent)
    if not loss.units and step.is_exact:
        mark(result, None, extent)
        return Bounded(evaluation, result, None, raw)
    error = error_of(step, function, loss, propagate)
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
    elif _has_known_operands(step):
        error = _propagated(step, loss, propagate or corners_of(function), out)
        if error is not None:
            if step.extent is not None or (not loss.partial and _settle_by_error(step, error, loss)):
                return error
            if _settle(step, error, loss):
                return error
    step.extent = None
    return careful_error(step, function, loss)


def _has_known_operands(step: Step) -> bool:
    """Whether no operand may be any number or NaN: a bounded function of such a one may be NaN too."""
    if step.extent is not None or step.widest is not None:  # foreseen from operands that are all finite
        return True
    explicit = [error for error in step.errors if error is not None and error.numel()]
    return all(largest < math.inf for largest in to_numbers([error.amax() for error in explicit]))


def _propagated(step: Step, loss: Loss, propagate: Propagate, out: Tensor | None) -> Tensor | None:
    """The op's own error and what its operands' add; None where the closed form does not hold."""
    if loss.partial:
        error = torch.empty_like(step.result) if out is None else out
        if loss.perturbed and step.widest is None:
            step.widest = step.perturbed().widest
    else:
        step = step.perturbed() if loss.perturbed else step
        error = own_error(step, loss, out)
    if loss.dip and not step.is_within(WIDE):
        return None
    if not propagate(step, error):
        return None
    if step.arithmetic.is_coarse:  # what is rounded is the result with its error
        error.mul_(1.0 + loss.units * step.arithmetic.unit_roundoff)
    return error


def _settle_by_error(step: Step, error: Tensor, loss: Loss) -> bool:
    """Whether the result must be in range, since its error, at least units * u * |result|, is small."""
    if not loss.units or error.numel() == 0:
        return False
    largest = float(error.amax())
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
        uncertain = [i for i, e in enumerate(step.errors) if e is not None]
        if len(uncertain) == 1:
            error.add_(_one_sided(function, step, uncertain[0]))
            return True
        deviation: Tensor | None = None
        for corner in corner_values(function, step.values, step.errors):
            distance = corner.sub_(step.result).abs_()
            deviation = distance if deviation is None else torch.maximum(deviation, distance, out=deviation)
        if deviation is not None:
            error.add_(deviation)
        return True

    return propagate


def _one_sided(function: Function, step: Step, uncertain: int) -> Tensor:
    """The deviation at the two ends of the only uncertain operand's interval, in one call of the function."""
    value: Any = step.values[uncertain]
    reach: Any = step.errors[uncertain]
    if isinstance(value, Tensor):
        ends = value.new_empty(2, *(1,) * (step.result.dim() - value.dim()), *value.shape)
        torch.add(value, reach, out=ends[0].view(value.shape))
        torch.sub(value, reach, out=ends[1].view(value.shape))
    else:
        ends = torch.stack((value + reach, value - reach)).view(2, *(1,) * step.result.dim())
    values = [ends if i == uncertain else v for i, v in enumerate(step.values)]
    distances = function(*values).sub_(step.result).abs_()
    return torch.maximum(distances[0], distances[1])
