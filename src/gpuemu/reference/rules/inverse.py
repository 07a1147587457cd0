"""Inverse functions, remainders and other functions with edges or jumps (rules 2 and 4)."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import torch

from gpuemu.reference.bounded import Bounded
from gpuemu.reference.elementwise import elementwise
from gpuemu.reference.registry import Call, rule
from gpuemu.reference.rules.transcendental import LOGARITHM, PLAIN, UNIT_SCALE, unary
from gpuemu.reference.step import Loss, to_operand

Tensor = torch.Tensor


def _inside_one(x: Tensor) -> Tensor:
    """Distance to the edge of [-1, 1], negative outside."""
    return 1.0 - x.abs()


EDGED = {
    "acos": replace(UNIT_SCALE, margin=_inside_one),
    "asin": replace(UNIT_SCALE, margin=_inside_one),
    "asinh": UNIT_SCALE,
    "acosh": replace(UNIT_SCALE, margin=lambda x: x - 1.0),
    "atanh": replace(UNIT_SCALE, margin=_inside_one, pole=True),
    "erfinv": replace(PLAIN, margin=_inside_one, pole=True),
    "special_ndtri": replace(UNIT_SCALE, margin=lambda x: 0.5 - (x - 0.5).abs(), pole=True),
    "special_erfcx": PLAIN,
    # Minima between the corners of a wide interval: of ln Gamma, at 1.4616.
    "lgamma": replace(LOGARITHM, floor=1.0, dip=0.1215),
}


@rule(*EDGED)
def edged(call: Call) -> Any:
    """Monotone functions on a domain with edges: evaluated at both ends of the argument's interval."""
    return unary(call, EDGED[call.name])


@rule("tan")
def tangent(call: Call) -> Any:
    """sin / cos: where the interval holds a zero of the cosine, nothing is known."""
    x = call.follow(call.args[0])
    return torch.sin(x) / torch.cos(x)


@rule("hypot")
def hypotenuse(call: Call) -> Any:
    """sqrt(a^2 + b^2), as kernels without a scaling write it: it overflows where the squares do.

    Infinite beside an infinity, even where the other is NaN (IEEE 754-2019, 9.2.1).
    """
    a, b = (call.follow(argument) for argument in call.args)
    root = torch.sqrt(a * a + b * b)
    if not bool(to_operand(root)[0].isnan().any()):
        return root
    return torch.where(torch.isinf(a) | torch.isinf(b), math.inf, root)


ANGLE = Loss(16.0, floor=1.0)


@rule("atan2")
def angle_of(call: Call) -> Any:
    """Two-sided in both arguments; unknown by a full turn where the box touches the cut along b < 0, a = 0."""
    (a, error_a), (b, error_b) = (to_operand(argument) for argument in call.args)
    result: Any = elementwise(call.evaluation, torch.atan2, [(a, error_a), (b, error_b)], ANGLE)
    reach_a = torch.zeros_like(result.value) if error_a is None else error_a.expand(result.shape)
    reach_b = torch.zeros_like(result.value) if error_b is None else error_b.expand(result.shape)
    across = (a.abs() <= reach_a) & (b - reach_b <= 0) & ((reach_a > 0) | (reach_b > 0))
    if not bool(across.any()):
        return result
    error = torch.zeros_like(result.value) if result.error is None else result.error
    return call.make(result.value, torch.where(across, 2.0 * math.pi, error))


@rule("angle")
def angle_of_real(call: Call) -> Any:
    """0 for numbers from 0 on, pi below; NaN stays."""
    x = call.follow(call.args[0])
    return torch.where(x < 0, math.pi, torch.where(torch.isnan(x), x, 0.0))


@rule("copysign")
def copy_sign(call: Call) -> Any:
    """|a| with the sign of b, which a rounding may turn where b is near 0."""
    a, b = (call.follow(argument) for argument in call.args)
    if not isinstance(b, Tensor):
        b = torch.tensor(float(b), dtype=torch.float64, device=a.device)
    size = torch.abs(a)
    return torch.where(torch.signbit(b), -size, size)


@rule("fmod", "remainder")
def remainder_of(call: Call) -> Any:
    """a - b trunc(a / b), or floor for `remainder`: the quotient may jump where it comes near an integer.

    By an infinite b a finite a is its own remainder (C23, F.10.7.1); `remainder` has the sign of b, and so is b
    where a has the other one.
    """
    a, b = (call.follow(argument) for argument in call.args)
    if not any(isinstance(x, torch.Tensor) and x.is_floating_point() for x in (a, b)):
        return call.func(*call.args)
    whole = torch.trunc if call.name == "fmod" else torch.floor
    result = a - b * whole(a / b)
    divisor = torch.as_tensor(to_operand(b)[0])
    if not bool(divisor.isinf().any()):
        return result
    dividend = a if isinstance(a, Tensor) else torch.as_tensor(a, dtype=torch.float64, device=result.device)
    alone = dividend
    if call.name == "remainder":
        alone = torch.where((dividend != 0) & ((dividend < 0) ^ (divisor < 0)), b, dividend)
    return torch.where(divisor.isinf() & torch.isfinite(dividend), alone, result)


@rule("div.Tensor_mode", "div.Scalar_mode", "floor_divide")
def divided(call: Call) -> Any:
    """A quotient rounded to an integer, towards zero or down."""
    mode = call.kwargs.get("rounding_mode", "floor" if call.name == "floor_divide" else None)
    a, b = (call.follow(argument) for argument in call.args[:2])
    quotient = a / b
    return quotient if mode is None else (torch.trunc if mode == "trunc" else torch.floor)(quotient)


@rule("nextafter")
def following(call: Call) -> Any:
    """A neighbour in the storage dtype, which float64 has not: the argument, off by an ulp of its dtype."""
    x, towards = (call.follow(argument) for argument in call.args)
    storage = call.arithmetic.storage
    value, error = to_operand(x + torch.where(torch.isnan(towards), towards, 0.0))
    # From an infinity to the largest number.
    value = torch.where(value.isinf() & (to_operand(towards)[0] != value), value.sign() * storage.max, value)
    ulp = value.abs() * (2.0 * storage.unit_roundoff)
    ulp += storage.smallest_subnormal
    ulp.masked_fill_(~value.isfinite(), 0.0)
    return call.make(value, ulp if error is None else error + ulp)


@rule("frac")
def fraction(call: Call) -> Any:
    """x - trunc(x)."""
    x = call.follow(call.args[0])
    return x - torch.trunc(x)


@rule("heaviside")
def step_function(call: Call) -> Any:
    """0 below 0, 1 above, the second argument at 0."""
    x, at_zero = (call.follow(argument) for argument in call.args)
    return torch.where(x == 0, at_zero, (x > 0).double())


@rule("count_nonzero")
def count_nonzero(call: Call) -> Any:
    """How many elements are not 0: uncertain by as many as may or may not be 0."""
    value, error = to_operand(call.args[0])
    result = call.func(value, *call.args[1:], **call.kwargs)
    if error is None:
        return result
    doubtful = ((error > 0) & (value.abs() <= error)).double()
    deviation = call.func(doubtful, *call.args[1:], **call.kwargs).double()
    return call.make(result, deviation) if bool(deviation.any()) else result


@rule("bucketize", "searchsorted", "isin", "histc")
def counted(call: Call) -> Any:
    """Integers from comparisons: exact where the numbers are, else two-sided (places are monotone in each)."""
    operands = [a.value if type(a) is Bounded else a for a in call.args]
    result = call.func(*operands, **call.kwargs)
    moved = [i for i, a in enumerate(call.args) if type(a) is Bounded and a.error is not None]
    if not moved or call.name in ("histc", "isin"):
        return result if not moved else _unknown(call, result)
    deviation = torch.zeros(result.shape, dtype=torch.float64, device=result.device)
    for signs in product((1.0, -1.0), repeat=len(moved)):
        ends = list(operands)
        for position, sign in zip(moved, signs, strict=True):
            ends[position] = call.args[position].value + sign * call.args[position].error
        there = call.func(*ends, **call.kwargs).double()
        deviation = torch.maximum(deviation, (there - result.double()).abs())
    if not bool(deviation.any()):
        return result
    return call.make(result, deviation > 0 if result.dtype == torch.bool else deviation)


def _unknown(call: Call, result: Tensor) -> Any:
    error = torch.full(result.shape, torch.inf, dtype=torch.float64, device=result.device)
    return call.make(result, error)
