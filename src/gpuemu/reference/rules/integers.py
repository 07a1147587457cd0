"""Rounding to integers, and arithmetic on integers that a rounding may have changed (ORACLE.md 2.3 and 2.5).

An uncertain integer is known to within a whole number; where that is small, an op on it is evaluated at every
integer that it may be, in its own dtype. Where it is not (a shifted code, say), nothing is known of the result.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch

from gpuemu.reference.bounded import Bounded
from gpuemu.reference.errors import UnsupportedReferenceError
from gpuemu.reference.registry import RULES, Call, Rule, overloads, rule
from gpuemu.reference.step import to_operand

Tensor = torch.Tensor

ON_INTEGERS = (
    "__and__", "__lshift__", "__or__", "__rshift__", "__xor__", "abs", "bitwise_and", "bitwise_left_shift",
    "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "clamp", "clamp_max", "clamp_min",
    "div.Scalar_mode", "div.Tensor_mode", "floor_divide", "fmod", "maximum", "minimum", "neg", "remainder",
    "sign",
)  # fmt: skip
# Integers this far on either side are tried one by one; beyond, nothing is known of the result.
REACH = 2


def is_integer(argument: Any) -> bool:
    """Whether an argument is an integer, or a tensor of integers (bools are not)."""
    if isinstance(argument, Tensor):
        return not argument.is_floating_point() and argument.dtype != torch.bool
    return isinstance(argument, int) and not isinstance(argument, bool)


def first_on_integers(previous: Rule | None) -> Rule:
    """A rule that follows uncertain integers itself and leaves all else to the previous one."""

    def choose(call: Call) -> Any:
        uncertain = any(type(a) is Bounded and is_integer(a) for a in call.args)
        if uncertain and all(is_integer(a) or a is None for a in call.args):
            return follow(call)
        return (previous or _resolve(call))(call)

    return choose


def _resolve(call: Call) -> Rule:
    from gpuemu.reference.dispatch import resolve  # it imports this module

    return resolve(call.func)


for _name in ON_INTEGERS:
    for _overload in overloads(_name):
        RULES[_overload] = first_on_integers(RULES.get(_overload))


def follow(call: Call) -> Any:
    """The result for the integers as they are, and the largest deviation for those that they may be."""
    values = [a.value if type(a) is Bounded else a for a in call.args]
    errors = [a.error if type(a) is Bounded else None for a in call.args]
    result: Tensor = call.func(*values, **call.kwargs)
    if all(error is None for error in errors):
        return result
    deviation = torch.zeros(result.shape, dtype=torch.float64, device=result.device)
    offsets = [_offsets(error) for error in errors]
    for corner in itertools.product(*offsets):
        moved = [_moved(*each) for each in zip(values, errors, corner, strict=True)]
        distance = (call.func(*moved, **call.kwargs).double() - result.double()).abs_()
        deviation = torch.maximum(deviation, distance)
    for error in errors:
        if error is not None:
            deviation = torch.where(error > REACH, torch.inf, deviation)
    return call.make(result, deviation) if bool((deviation != 0).any()) else result


def _offsets(error: Tensor | None) -> range:
    """The offsets to try: none beyond the largest error, where `_moved` would change nothing more."""
    largest = 0.0 if error is None or error.numel() == 0 else float(error.amax())
    reach = int(largest) if largest <= REACH else REACH  # NaN compares false
    return range(-reach, reach + 1)


def _moved(value: Any, error: Tensor | None, offset: int) -> Any:
    """An operand moved by an offset as far as its error allows, within its dtype."""
    if error is None or offset == 0:
        return value
    limits = torch.iinfo(value.dtype)
    reach = error.floor().clamp(max=abs(offset)).to(torch.int64)
    wide = value.to(torch.int64) + (reach if offset > 0 else -reach)
    return wide.clamp(limits.min, limits.max).to(value.dtype)


@rule("view.dtype")
def reinterpret(call: Call) -> Any:
    """The same bits as another integer dtype of that size."""
    x, dtype = call.args
    if type(x) is not Bounded or dtype == x.dtype:
        return call.func(x, dtype) if type(x) is not Bounded else x.share()
    if x.value.is_floating_point() or dtype.is_floating_point or dtype.itemsize != x.value.dtype.itemsize:
        raise UnsupportedReferenceError(
            f"the reference reads the bits of a {x.dtype} tensor as {dtype}; compute the number instead"
        )
    return follow(call)


def _round_rule(previous: Rule) -> Rule:
    def round_(call: Call) -> Any:
        """Rounding to an integer; of two that are equally near, either is legitimate (half-even, half-up)."""
        result = previous(call)
        value, _ = to_operand(call.args[0])
        if call.kwargs.get("decimals", 0) or (len(call.args) > 1 and call.args[1]):
            return result
        tie = (value - value.floor()) == 0.5
        if not bool(tie.any()):
            return result
        error = torch.zeros_like(result.value) if result.error is None else result.error
        return call.make(result.value, torch.where(tie, error.clamp(min=1.0), error))

    return round_


for _overload in overloads("round"):
    RULES[_overload] = _round_rule(RULES[_overload])


@rule("frexp")
def split(call: Call) -> Any:
    """Mantissa in [1/2, 1) and exponent; exact, and uncertain where the argument may lie in two binades."""
    value, error = to_operand(call.args[0])
    mantissa, exponent = torch.frexp(value)
    if error is None:
        return call.make(mantissa), exponent
    ends = [torch.frexp(end)[1].double() for end in (value + error, value - error)]
    doubt = torch.maximum(*((end - exponent.double()).abs() for end in ends))
    doubt = torch.where((value.abs() <= error) & (error != 0), torch.inf, doubt)
    scaled = torch.ldexp(error, -exponent)
    return call.make(mantissa, torch.where(doubt != 0, torch.inf, scaled)), call.make(exponent, doubt)


@rule("ldexp")
def scale_by_power(call: Call) -> Any:
    """x 2^n; n may be uncertain."""
    x, power = call.follow(call.args[0]), call.follow(call.args[1])
    if type(power) is Bounded and power.error is not None:
        return x * torch.exp2(power)
    return x * call.make(torch.exp2(to_operand(power)[0]))
