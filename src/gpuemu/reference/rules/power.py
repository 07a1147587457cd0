"""Rule 3: squares, roots and powers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from gpuemu.reference.bounded import Bounded
from gpuemu.reference.elementwise import elementwise
from gpuemu.reference.registry import Call, rule
from gpuemu.reference.rules.arithmetic import all_integers, on_integers
from gpuemu.reference.step import Loss, Step, to_operand

Tensor = torch.Tensor


def _identity(operand: Tensor) -> Tensor:
    return operand


LEAST = math.ulp(0.0)  # the least number above 0
SQUARE = Loss(1.0, certificate=True, positive="always", growth=lambda x: (x * x, (2.0 * x,)))
SQRT = Loss(4.0, margin=_identity, positive="always")
RSQRT = Loss(4.0, margin=_identity, pole=True, positive="with operands")
# Whole powers: products, for which a representable result is exact as for one product.
SQUARE_POWER = replace(SQUARE, units=4.0)
WHOLE_POWER = Loss(4.0)
HALF_POWER = Loss(4.0, margin=_identity)
NEGATIVE_WHOLE_POWER = Loss(4.0, margin=torch.abs, pole=True)
NEGATIVE_HALF_POWER = Loss(4.0, margin=_identity, pole=True)
# A power that is no whole or half number is exp2(p log2 x): its exponent may be off by 2u|p| (rule 4).
REAL_POWER = Loss(16.0, perturbed=True, margin=_identity, edged=0, pole=True)


def propagate_root(step: Step, error: Tensor) -> bool:
    """sqrt(x) - sqrt(x - e), the larger side, as e / (sqrt(x - e) + sqrt(x))."""
    error_x = step.errors[0]
    if error_x is None:
        return True
    lower = step.values[0] - error_x
    step.demand(lower, LEAST)
    error.addcdiv_(error_x, lower.sqrt_().add_(step.result))
    return True


def propagate_inverse_root(step: Step, error: Tensor) -> bool:
    """v (1/sqrt(1 - e/x) - 1), the larger side, as (e/x) / (sqrt(x - e) + (x - e) v)."""
    x, error_x = step.values[0], step.errors[0]
    lower = x if error_x is None else x - error_x
    step.demand(lower, step.arithmetic.underflow)
    if error_x is not None:
        error.addcdiv_(error_x / x, lower.sqrt().addcmul_(lower, step.result))
    return True


def propagate_square(step: Step, error: Tensor) -> bool:
    """(2|x| + e) e."""
    x, error_x = step.values[0], step.errors[0]
    if error_x is not None:
        error.addcmul_(x.abs().mul_(2.0).add_(error_x), error_x)
    return True


@rule("sqrt")
def sqrt(call: Call) -> Any:
    """The square root."""
    return elementwise(call.evaluation, torch.sqrt, [to_operand(call.args[0])], SQRT, propagate_root)


@rule("rsqrt")
def rsqrt(call: Call) -> Any:
    """1 / sqrt(x)."""
    return elementwise(call.evaluation, torch.rsqrt, [to_operand(call.args[0])], RSQRT, propagate_inverse_root)


@rule("square")
def square(call: Call) -> Any:
    """x^2."""
    return elementwise(call.evaluation, torch.square, [to_operand(call.args[0])], SQUARE, propagate_square)


@rule("pow.Tensor_Scalar")
def power(call: Call) -> Any:
    """x^p for a number p: products, divisions and roots where p is whole or half, else exp2(p log2 x)."""
    x, exponent = call.args
    if all_integers(x, exponent):
        return on_integers(call)
    if exponent == 1 and type(x) is Bounded:
        return x.share()
    if exponent == 0.5:
        return sqrt(call)
    if exponent == -0.5:
        return rsqrt(call)
    operand = to_operand(x)
    if exponent == 2:
        return elementwise(call.evaluation, torch.square, [operand], SQUARE_POWER, propagate_square)
    if (2 * exponent) % 1 == 0:
        losses = (WHOLE_POWER, NEGATIVE_WHOLE_POWER) if exponent % 1 == 0 else (HALF_POWER, NEGATIVE_HALF_POWER)
        return elementwise(call.evaluation, lambda base: base**exponent, [operand], losses[exponent < 0])
    return elementwise(call.evaluation, torch.pow, [operand, _as_tensor(exponent, operand[0])], REAL_POWER)


@rule("pow.Tensor_Tensor", "pow.Scalar")
def real_power(call: Call) -> Any:
    """x^y for tensors, as exp2(y log2 x)."""
    base, exponent = (to_operand(argument) for argument in call.args)
    if not isinstance(base[0], Tensor):
        base = _as_tensor(base[0], exponent[0])
    return elementwise(call.evaluation, torch.pow, [base, exponent], REAL_POWER)


def _as_tensor(number: float, like: Tensor) -> tuple[Tensor, None]:
    """A number as an operand with an explicit value, so that it is perturbed as well."""
    return torch.tensor(number, dtype=torch.float64, device=like.device), None
