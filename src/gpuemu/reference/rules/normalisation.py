"""Layer, group and RMS norms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from gpuemu.reference.bounded import Bounded
from gpuemu.reference.registry import rule

if TYPE_CHECKING:
    from gpuemu.reference.dispatch import Evaluation

Tensor = torch.Tensor


def follow(evaluation: Evaluation, argument: Any) -> Any:
    """A tensor argument as a bounded one, so that ordinary torch code on it is followed."""
    if isinstance(argument, Tensor) and type(argument) is not Bounded:
        return evaluation.make(argument.double())
    return argument


def _normalise(x: Any, dims: list[int], eps: float) -> tuple[Any, Any, Any]:
    mean = x.mean(dims, keepdim=True)
    deviation = x - mean
    inverse = torch.rsqrt((deviation * deviation).mean(dims, keepdim=True) + eps)
    return deviation * inverse, mean, inverse


@rule("native_layer_norm")
def layer_norm(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Mean, variance of the deviations, scale: decomposed, so that each step is bounded by its own rule."""
    x, shape, weight, bias, eps = args
    x = follow(evaluation, x)
    y, mean, inverse = _normalise(x, list(range(x.dim() - len(shape), x.dim())), eps)
    y = y if weight is None else y * follow(evaluation, weight)
    y = y if bias is None else y + follow(evaluation, bias)
    return y, mean, inverse


@rule("native_group_norm")
def group_norm(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A layer norm per sample and group of channels, then a scale and shift per channel."""
    x, weight, bias, samples, channels, _, groups, eps = args
    x = follow(evaluation, x)
    y, mean, inverse = _normalise(x.reshape(samples, groups, -1), [2], eps)
    y = y.reshape(x.shape)
    per_channel = (1, channels, *(1,) * (x.dim() - 2))
    y = y if weight is None else y * follow(evaluation, weight).reshape(per_channel)
    y = y if bias is None else y + follow(evaluation, bias).reshape(per_channel)
    return y, mean.reshape(samples, groups), inverse.reshape(samples, groups)


@rule("_fused_rms_norm")
def rms_norm(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """x / sqrt(mean(x^2) + eps), times the weight; gives the inverse root as well."""
    x, shape, weight, eps = (*args, None)[:4]
    x = follow(evaluation, x)
    dims = list(range(x.dim() - len(shape), x.dim()))
    if eps is None:
        eps = torch.finfo(torch.float64).eps
    inverse = torch.rsqrt((x * x).mean(dims, keepdim=True) + eps)
    y = x * inverse
    return (y if weight is None else y * follow(evaluation, weight)), inverse
