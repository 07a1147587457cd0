"""Layer, group and RMS norms: decomposed, so that each step is bounded by its own rule."""

from __future__ import annotations

from typing import Any

import torch

from gpuemu.reference.errors import UnsupportedReferenceError
from gpuemu.reference.layer_norm import layer_norm_error
from gpuemu.reference.registry import Call, rule

Tensor = torch.Tensor


def _normalise(x: Any, dims: list[int], eps: float) -> tuple[Any, Any, Any]:
    """(x - mean) / sqrt(variance + eps), the mean and the inverse root."""
    mean = x.mean(dims, keepdim=True)
    deviation = x - mean
    inverse = torch.rsqrt((deviation * deviation).mean(dims, keepdim=True) + eps)
    return deviation * inverse, mean, inverse


@rule("native_layer_norm")
def layer_norm(call: Call) -> Any:
    """Two passes, then scale and shift; also gives mean and inverse root. Closed form while all is in range."""
    argument, shape, weight, bias, eps = call.args
    x = call.follow(argument)
    dims = list(range(x.dim() - len(shape), x.dim()))
    value, mean, inverse = call.func(x.value, shape, None, None, eps)
    errors = layer_norm_error(call.arithmetic, x.value, x.error, mean, inverse, eps, len(dims))
    if errors is None:
        normalised, mean, inverse = _normalise(x, dims, eps)
    else:
        values = (value, mean, inverse)
        normalised, mean, inverse = (call.make(*each) for each in zip(values, errors, strict=True))
    if weight is None and bias is None:
        return call.make(value, normalised.error), mean, inverse
    y = normalised if weight is None else normalised * call.follow(weight)
    y = y if bias is None else y + call.follow(bias)
    parameters = (None if p is None else call.follow(p).value for p in (weight, bias))
    return call.make(call.func(x.value, shape, *parameters, eps)[0], y.error), mean, inverse


@rule("native_group_norm")
def group_norm(call: Call) -> Any:
    """A layer norm per sample and group of channels, then a scale and shift per channel."""
    x, (samples, _, _, groups, eps) = call.follow(call.args[0]), call.args[3:]
    y, mean, inverse = _normalise(x.reshape(samples, groups, -1), [2], eps)
    y = _scale_channels(call, y.reshape(x.shape))
    return y, mean.reshape(samples, groups), inverse.reshape(samples, groups)


@rule("_fused_rms_norm")
def rms_norm(call: Call) -> Any:
    """x / sqrt(mean(x^2) + eps), times the weight; gives the inverse root as well."""
    argument, shape, weight, eps = call.args
    x = call.follow(argument)
    dims = list(range(x.dim() - len(shape), x.dim()))
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    inverse = torch.rsqrt(x.pow(2).mean(dims, keepdim=True) + eps)
    y = x * inverse
    return (y if weight is None else y * call.follow(weight)), inverse


@rule("native_batch_norm", "_native_batch_norm_legit_no_training", "_native_batch_norm_legit.no_stats")
def batch_norm(call: Call) -> Any:
    """A layer norm per channel over samples and places, or with given statistics; then a scale and shift."""
    x, eps = call.follow(call.args[0]), call.args[-1]
    given = call.args[3:5] if call.func._overloadname != "no_stats" else (None, None)
    if given != (None, None):
        return _batch_norm_with_statistics(call, x, given, eps)
    y, mean, inverse = _normalise(x, [0, *range(2, x.dim())], eps)
    return _scale_channels(call, y), mean.reshape(-1), inverse.reshape(-1)


def _batch_norm_with_statistics(call: Call, x: Any, given: tuple[Any, Any], eps: float) -> Any:
    """x a + (b - mean a) with a = weight / sqrt(variance + eps): folded, as kernels for inference do."""
    if call.name == "native_batch_norm" and call.args[5]:
        raise UnsupportedReferenceError("the reference's batch norm updates running statistics; pass None")
    mean, variance = (call.follow(statistic) for statistic in given)
    weight, bias = call.args[1:3]
    inverse = torch.rsqrt(variance + eps)
    factor = inverse if weight is None else inverse * call.follow(weight)
    shift = -mean * factor if bias is None else call.follow(bias) - mean * factor
    y = x * factor.reshape(_per_channel(x)) + shift.reshape(_per_channel(x))
    return y, mean, inverse


def _scale_channels(call: Call, y: Any) -> Any:
    """y times the weight plus the bias (arguments 1 and 2, each may be missing) of its channel."""
    weight, bias = call.args[1:3]
    y = y if weight is None else y * call.follow(weight).reshape(_per_channel(y))
    return y if bias is None else y + call.follow(bias).reshape(_per_channel(y))


def _per_channel(x: Tensor) -> tuple[int, ...]:
    """The shape in which a vector over the channels (dim 1) broadcasts to x."""
    return (1, x.shape[1], *(1,) * (x.dim() - 2))
