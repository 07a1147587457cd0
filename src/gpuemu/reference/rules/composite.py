"""Activations that are made of simpler ops, written out so that every step has its own rule."""

from __future__ import annotations

import math
from typing import Any

import torch

from gpuemu.reference.constants import number_tensor
from gpuemu.reference.registry import Call, rule
from gpuemu.reference.rules.cast import has_widened
from gpuemu.reference.rules.exact import is_raw
from gpuemu.reference.rules.transcendental import PLAIN, unary
from gpuemu.reference.step import to_operand


@rule("hardsigmoid")
def hard_sigmoid(call: Call) -> Any:
    """clamp(x + 3, 0, 6) / 6."""
    return (call.follow(call.args[0]) + 3.0).clamp(0.0, 6.0) / 6.0


@rule("hardswish")
def hard_swish(call: Call) -> Any:
    """x clamp(x + 3, 0, 6) / 6."""
    x = call.follow(call.args[0])
    return x * (x + 3.0).clamp(0.0, 6.0) / 6.0


@rule("glu")
def gated_linear_unit(call: Call) -> Any:
    """a sigmoid(b) for the two halves a, b along a dim (Dauphin et al., arXiv 1612.08083)."""
    a, b = call.follow(call.args[0]).chunk(2, call.args[1] if len(call.args) > 1 else -1)
    return a * torch.sigmoid(b)


@rule("softshrink")
def soft_shrink(call: Call) -> Any:
    """x minus its projection onto [-lambda, lambda]."""
    x, width = call.follow(call.args[0]), call.args[1] if len(call.args) > 1 else 0.5
    return x - x.clamp(-width, width)


@rule("addcmul")
def add_product(call: Call) -> Any:
    """c + value a b."""
    c, a, b = (call.follow(argument) for argument in call.args[:3])
    factor = call.kwargs.get("value", 1)
    return c + (a * b if factor == 1 else a * b * factor)


@rule("addcdiv")
def add_quotient(call: Call) -> Any:
    """c + value a / b."""
    c, a, b = (call.follow(argument) for argument in call.args[:3])
    factor = call.kwargs.get("value", 1)
    return c + (a / b if factor == 1 else a / b * factor)


@rule("lerp")
def interpolate(call: Call) -> Any:
    """a + w (b - a)."""
    a, b, weight = (call.follow(argument) for argument in call.args[:3])
    return a + (b - a) * weight


@rule("xlogy.Tensor", "xlogy.Scalar_Other", "xlogy.Scalar_Self")
def x_log_y(call: Call) -> Any:
    """x log y, 0 where x is 0 and y is a number."""
    x, y = (call.follow(argument) for argument in call.args[:2])
    y = y if isinstance(y, torch.Tensor) else call.make(torch.tensor(float(y), dtype=torch.float64))
    product = x * torch.log(y)
    return torch.where((x == 0) & ~torch.isnan(y), 0.0, product)


@rule("sinc")
def cardinal_sine(call: Call) -> Any:
    """sin(pi x) / (pi x), and 1 at 0; around its maximum there, evaluated at both ends of the interval.

    For |x| < 1/2 a sine is accurate to its own size, and the end that is further from 0 deviates the most.
    """
    x = call.follow(call.args[0])
    turned = x * math.pi
    value, error = to_operand(x)
    near = value.abs() + (0.0 if error is None else error) < 0.5
    return torch.where(near, unary(call, PLAIN), torch.sin(turned) / turned)


@rule("nan_to_num")
def nan_to_num(call: Call) -> Any:
    """NaN and infinities replaced by numbers: infinities, by default, by the largest of the tensor's dtype.

    For an input that is its storage dtype's (65504 for float16), not float64's. What is computed, or was cast
    to a wider dtype, a kernel may hold in either format: there, an infinity may become either's largest number.
    """
    x = call.follow(call.args[0])
    nan, high, low = (call.argument(i, name) for i, name in ((1, "nan"), (2, "posinf"), (3, "neginf")))
    largest = call.make(number_tensor(call.arithmetic.storage.max, x.device), _doubt_of_largest(call, x))
    x = torch.where(torch.isnan(x), 0.0 if nan is None else nan, x)
    x = torch.where(torch.isposinf(x), largest if high is None else high, x)
    return torch.where(torch.isneginf(x), -largest if low is None else low, x)


def _doubt_of_largest(call: Call, x: Any) -> torch.Tensor | None:
    """None if it is certain which format's largest number stands for an infinity, else an error of inf."""
    certain = call.arithmetic.overflow == call.arithmetic.storage.max
    certain |= is_raw(x) and not has_widened(call.evaluation)
    return None if certain else number_tensor(math.inf, x.device)


@rule("logaddexp")
def log_add_exp(call: Call) -> Any:
    """log(exp(a) + exp(b)) = max(a, b) + log(1 + exp(-|a - b|))."""
    a, b = call.follow(call.args[0]), call.follow(call.args[1])
    shape = torch.broadcast_shapes(a.shape, b.shape)  # type: ignore[no-untyped-call]
    return torch.logsumexp(torch.stack((a.expand(shape), b.expand(shape))), 0)
