"""Activations that are made of simpler ops, written out so that every step has its own rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from gpuemu.reference.registry import rule
from gpuemu.reference.rules.normalisation import follow

if TYPE_CHECKING:
    from gpuemu.reference.dispatch import Evaluation


@rule("hardsigmoid")
def hard_sigmoid(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """clamp(x + 3, 0, 6) / 6."""
    return (follow(evaluation, args[0]) + 3.0).clamp(0.0, 6.0) / 6.0


@rule("hardswish")
def hard_swish(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """x clamp(x + 3, 0, 6) / 6."""
    x = follow(evaluation, args[0])
    return x * (x + 3.0).clamp(0.0, 6.0) / 6.0


@rule("glu")
def gated_linear_unit(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """a sigmoid(b) for the two halves a, b along a dim (Dauphin et al., arXiv 1612.08083)."""
    a, b = follow(evaluation, args[0]).chunk(2, args[1] if len(args) > 1 else -1)
    return a * torch.sigmoid(b)


@rule("softshrink")
def soft_shrink(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """x minus its projection onto [-lambda, lambda]."""
    x, width = follow(evaluation, args[0]), args[1] if len(args) > 1 else 0.5
    return x - x.clamp(-width, width)


@rule("addcmul")
def add_product(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """c + value a b."""
    c, a, b = (follow(evaluation, argument) for argument in args[:3])
    factor = kwargs.get("value", 1)
    return c + (a * b if factor == 1 else a * b * factor)


@rule("addcdiv")
def add_quotient(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """c + value a / b."""
    c, a, b = (follow(evaluation, argument) for argument in args[:3])
    factor = kwargs.get("value", 1)
    return c + (a / b if factor == 1 else a / b * factor)


@rule("lerp")
def interpolate(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """a + w (b - a)."""
    a, b, weight = (follow(evaluation, argument) for argument in args[:3])
    return a + (b - a) * weight


@rule("xlogy.Tensor", "xlogy.Scalar_Other", "xlogy.Scalar_Self")
def x_log_y(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """x log y, 0 where x is 0."""
    x, y = (follow(evaluation, argument) for argument in args[:2])
    y = y if isinstance(y, torch.Tensor) else evaluation.make(torch.tensor(float(y), dtype=torch.float64))
    product = x * torch.log(y)
    return torch.where(x == 0, 0.0, product)
