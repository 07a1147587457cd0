"""Elementwise ops: propagation of operand errors, the op's own rounding, and what overflows (rules 2 to 4, 7).

Every op has a fast path, which is right as long as everything is finite and within range, and a careful path
(`careful.py`), which is taken as soon as one element is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from gpuemu.reference.arithmetic import Arithmetic
from gpuemu.reference.bounded import Bounded
from gpuemu.reference.careful import careful_error
from gpuemu.reference.pieces import Piece, cut, pieces
from gpuemu.reference.step import (
    WIDE,
    Function,
    Loss,
    Operand,
    Propagate,
    Step,
    corner_values,
    is_lossy,
    is_settled,
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
    step = Step(
        evaluation.arithmetic,
        [value for value, _ in operands],
        [error for _, error in operands],
        function(*[value for value, _ in operands]),
    )
    if not loss.units and step.is_exact:
        return Bounded(evaluation, step.result, None, raw)
    return Bounded(evaluation, step.result, error_of(step, function, loss, propagate))


def error_of(step: Step, function: Function, loss: Loss, propagate: Propagate | None) -> Tensor | None:
    """The error of a step's result; None if it is exact. Large results are worked on in pieces."""
    result = step.result
    cuts = pieces(result)
    if cuts is None:
        return _error_of_piece(step, function, loss, propagate)
    total: Tensor | None = None
    done: list[Piece] = []
    for piece in cuts:
        part = Step(
            step.arithmetic,
            [cut(value, result.dim(), piece) for value in step.values],
            [cut(error, result.dim(), piece) for error in step.errors],
            result.narrow(*piece),
        )
        error = _error_of_piece(part, function, loss, propagate)
        if error is not None:
            if total is None:
                total = torch.empty_like(result)
                for exact in done:
                    total.narrow(*exact).zero_()
            total.narrow(*piece).copy_(error)
        elif total is not None:
            total.narrow(*piece).zero_()
        done.append(piece)
    return total


def _error_of_piece(step: Step, function: Function, loss: Loss, propagate: Propagate | None) -> Tensor | None:
    arithmetic, certain = step.arithmetic, False
    if loss.units and step.is_exact and not loss.perturbed and loss.margin is None:
        error, certain = own_error(step, loss), True
        if loss.certificate and arithmetic.compute is not None:
            lossy = is_lossy(step)
            if not bool(lossy.any()) and is_settled(arithmetic, step.result, None):
                return None
            error.mul_(lossy)
            certain = False
    else:
        perturbed = step.perturbed() if loss.perturbed else step
        error = torch.empty_like(step.result) if loss.partial else own_error(perturbed, loss)
        if loss.dip and not perturbed.is_within(WIDE):
            return careful_error(step, function, loss)
        if not (propagate or corners_of(function))(perturbed, error):
            return careful_error(step, function, loss)
        if arithmetic.is_coarse:  # what is rounded is the result with its error
            error.mul_(1.0 + loss.units * arithmetic.unit_roundoff)
        certain = not loss.partial
    if certain and _is_settled_by_error(arithmetic, error, loss):
        return error
    if is_settled(arithmetic, step.result, error, loss.headroom):
        return error
    return careful_error(step, function, loss)


def _is_settled_by_error(arithmetic: Arithmetic, error: Tensor, loss: Loss) -> bool:
    """Whether the result must be in range, since its error, at least units * u * |result|, is small."""
    if not loss.units or error.numel() == 0:
        return False
    share = loss.units * arithmetic.unit_roundoff
    return bool(float(error.max()) * (1.0 + 1.0 / share) * loss.headroom <= arithmetic.overflow)


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
