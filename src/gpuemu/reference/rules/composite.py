"""Activations that are made of simpler ops, written out so that every step has its own rule."""

from __future__ import annotations

from typing import Any

import torch

from gpuemu.reference.registry import Call, rule


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


@rule("floor_divide")
def floor_divide(call: Call) -> Any:
    """floor(a / b)."""
    return torch.floor(call.follow(call.args[0]) / call.follow(call.args[1]))


@rule("nan_to_num")
def nan_to_num(call: Call) -> Any:
    """NaN and infinities replaced by numbers."""
    x = call.follow(call.args[0])
    nan, high, low = (call.argument(i, name) for i, name in ((1, "nan"), (2, "posinf"), (3, "neginf")))
    largest = call.arithmetic.overflow
    x = torch.where(torch.isnan(x), 0.0 if nan is None else nan, x)
    x = torch.where(torch.isposinf(x), largest if high is None else high, x)
    return torch.where(torch.isneginf(x), -largest if low is None else low, x)


@rule("logaddexp")
def log_add_exp(call: Call) -> Any:
    """log(exp(a) + exp(b)) = max(a, b) + log(1 + exp(-|a - b|))."""
    a, b = call.follow(call.args[0]), call.follow(call.args[1])
    shape = torch.broadcast_shapes(a.shape, b.shape)  # type: ignore[no-untyped-call]
    return torch.logsumexp(torch.stack((a.expand(shape), b.expand(shape))), 0)
