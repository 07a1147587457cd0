"""Elementwise ops: propagation of operand errors, the op's own rounding, and what overflows (rules 2 to 4, 7).

Every op has a fast path, which is right as long as everything is finite and within range, and a careful path
(`careful.py`), which is taken as soon as one element is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from gpuemu.reference.bounded import Bounded
from gpuemu.reference.careful import careful_error
from gpuemu.reference.pieces import cut, pieces
from gpuemu.reference.step import (
    WIDE,
    Function,
    Loss,
    Operand,
    Propagate,
    Step,
    corner_values,
    is_lossy,
    is_narrow,
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
    for piece in cuts:
        part = Step(
            step.arithmetic,
            [cut(value, result.dim(), piece) for value in step.values],
            [cut(error, result.dim(), piece) for error in step.errors],
            result.narrow(*piece),
        )
        error = _error_of_piece(part, function, loss, propagate)
        if error is not None:
            total = torch.zeros_like(result) if total is None else total
            total.narrow(*piece).copy_(error)
    return total


def _error_of_piece(step: Step, function: Function, loss: Loss, propagate: Propagate | None) -> Tensor | None:
    arithmetic, settled = step.arithmetic, True
    if loss.units and step.is_exact and not loss.perturbed and loss.margin is None:
        error = own_error(step, loss)
        if loss.certificate and arithmetic.compute is not None:
            lossy = is_lossy(step)
            if not bool(lossy.any()) and is_settled(arithmetic, step.result, None):
                return None
            error.mul_(lossy)
    else:
        error = own_error(step, loss)
        perturbed = _perturbed(step) if loss.perturbed else step
        if not loss.dip or is_narrow(perturbed.errors[0], WIDE):
            settled = (propagate or corners_of(function))(perturbed, error)
        else:
            settled = False
    if settled and is_settled(arithmetic, step.result, error, loss.headroom):
        return error
    return careful_error(step, function, loss)


def _perturbed(step: Step) -> Step:
    """The step with 2u|x| added to the operands' errors, as tensors that a closed form may overwrite."""
    perturbation = 2.0 * step.arithmetic.unit_roundoff
    errors: list[Tensor | None] = []
    for value, error in zip(step.values, step.errors, strict=True):
        more = value.abs().mul_(perturbation)
        errors.append(more if error is None else more.add_(error))
    return Step(step.arithmetic, step.values, errors, step.result)


def corners_of(function: Function) -> Propagate:
    """Propagation by two-sided evaluation: exact for functions monotone in each argument (rule 2)."""

    def propagate(step: Step, error: Tensor) -> bool:
        deviation: Tensor | None = None
        for corner in corner_values(function, step.values, step.errors):
            distance = corner.sub_(step.result).abs_()
            deviation = distance if deviation is None else torch.maximum(deviation, distance, out=deviation)
        if deviation is not None:
            error.add_(deviation)
        return True

    return propagate
