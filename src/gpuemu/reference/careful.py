"""The error of an elementwise function where some element is not finite, out of range or at a pole."""

from __future__ import annotations

from typing import Any

import torch

from gpuemu.reference.step import WIDE, Function, Loss, Step, corner_values, is_lossy, own_error

Tensor = torch.Tensor


def careful_error(step: Step, function: Function, loss: Loss) -> Tensor:
    """As `elementwise.error_of`, for any values (rule 7 and ORACLE.md section 3).

    An element's error is inf ("any number is legitimate") where an operand's is, where an interval touches a
    pole or leaves the domain, where the compute format can overflow, and where an infinity arises from finite
    operands other than at a pole. NaN and infinities that come from non-finite operands carry no error.
    """
    arithmetic, result = step.arithmetic, step.result
    values = [_as_tensor(value, result.device) for value in step.values]
    errors: list[Tensor] = []
    unknown = torch.zeros(result.shape, dtype=torch.bool, device=result.device)
    infinite_operand = unknown.clone()
    for value, error in zip(values, step.errors, strict=True):
        explicit = torch.zeros_like(value) if error is None else error
        unknown |= ~explicit.isfinite()
        infinite_operand |= ~value.isfinite()
        more = value.abs() * (2.0 * arithmetic.unit_roundoff) if loss.perturbed else 0.0
        errors.append(torch.where(value.isfinite() & explicit.isfinite(), explicit + more, 0.0))
    deviation = torch.zeros_like(result)
    for corner in corner_values(function, values, errors):
        distance = torch.where(corner == result, 0.0, (corner - result).abs())
        deviation = torch.maximum(deviation, distance.nan_to_num(nan=torch.inf, posinf=torch.inf))
    if loss.dip:
        deviation += loss.dip * (errors[0] > WIDE)
    if arithmetic.is_coarse:  # what is rounded is the result with its error
        deviation *= 1.0 + loss.units * arithmetic.unit_roundoff
    error = deviation + _rounding(step, values, loss)
    # A correctly rounded op overflows by its result before rounding, the others by what they may return.
    reach, limit = error, arithmetic.overflow
    if loss.units == 1.0:
        reach, limit = deviation, arithmetic.overflow * (1.0 + arithmetic.unit_roundoff / 2.0)
    unknown |= result.isfinite() & (loss.headroom * (result.abs() + reach) > limit)
    arisen = result.isinf() & ~infinite_operand
    if loss.margin is not None:
        margin, uncertain = loss.margin(values[loss.edged]), errors[loss.edged]
        at_edge = (margin == 0) & (uncertain == 0)
        reaches_edge = margin - uncertain < (arithmetic.underflow if loss.pole else 0.0)
        unknown |= reaches_edge & ~at_edge & (margin + uncertain >= 0)
        if loss.pole:
            arisen &= ~at_edge  # x / 0 is infinite in every arithmetic
    return torch.where(unknown | arisen, torch.inf, torch.where(result.isfinite(), error, 0.0))


def _rounding(step: Step, values: list[Tensor], loss: Loss) -> Tensor:
    if not loss.units:
        return torch.zeros_like(step.result)
    finite = Step(step.arithmetic, [_finite(v) for v in values], step.errors, _finite(step.result))
    rounding = own_error(finite, loss)
    if loss.certificate and step.is_exact:
        rounding.mul_(is_lossy(finite))
    return rounding


def _finite(x: Tensor) -> Tensor:
    return x.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)


def _as_tensor(operand: Any, device: torch.device) -> Tensor:
    if isinstance(operand, Tensor):
        return operand
    return torch.tensor(operand, dtype=torch.float64, device=device)
