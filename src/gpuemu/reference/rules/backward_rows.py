"""Derivatives of softmax and norms: differences from weighted means over a row; g is the upstream gradient."""

from __future__ import annotations

from typing import Any

import torch

from gpuemu.reference.accumulation import count, reduced_dims
from gpuemu.reference.registry import Call, rule
from gpuemu.reference.rules.backward import add_error
from gpuemu.reference.step import to_operand

Tensor = torch.Tensor


@rule("_softmax_backward_data")
def softmax(call: Call) -> Any:
    """y (g - sum(y g)), also as y g - y sum(y g): three roundings of y (|g| + |sum|).

    Where g is computed from an upstream gradient h of an output o that is linear in y, sum(y g) = sum(h o),
    which FlashAttention takes with o as it was stored (Dao et al., arXiv 2205.14135, algorithm 4).
    """
    g, y = call.follow(call.args[0]), call.follow(call.args[1])
    total = (y * g).sum(call.args[2], keepdim=True) if y.dim() else y * g
    for row in call.evaluation.stored_rows if not g.raw else ():
        if row.shape == total.shape:
            call.evaluation.permissions["operand_rounding"] = None
            total = add_error(call, total, row)
    return difference_from_total(call, y, g, total)


def difference_from_total(call: Call, y: Any, g: Any, total: Any) -> Any:
    """y (g - total), for any order of product and difference."""
    result = y * (g - total)
    reach = y.value.abs() * (g.value.abs() + total.value.abs())
    return add_error(call, result, reach * (3.0 * call.arithmetic.unit_roundoff))


@rule("_log_softmax_backward_data")
def log_softmax(call: Call) -> Any:
    """g - exp(y) sum(g)."""
    g, y = call.follow(call.args[0]), call.follow(call.args[1])
    return g - torch.exp(y) * _sum_of_sparse(call, g, call.args[2])


def _sum_of_sparse(call: Call, g: Any, dim: int) -> Any:
    """The sum over a dim, kept: zeros are added without a rounding, and a loss picks one class of thousands."""
    value, error = to_operand(g)
    dims = reduced_dims(value, dim)
    filled = value != 0 if error is None else (value != 0) | (error != 0)
    terms = int(filled.sum(dims).max()) if dims and value.numel() else count(value, dims)
    if 2 * terms > count(value, dims):
        return g.sum(dim, keepdim=True)
    # As many columns as there are terms, at the most, hold them all: the largest magnitudes come first.
    size = value.abs() if error is None else value.abs() + error
    kept = torch.topk(torch.where(size.isnan(), torch.inf, size), max(terms, 1), dims[0]).indices
    part = call.make(value.gather(dims[0], kept), None if error is None else error.gather(dims[0], kept))
    return part if terms <= 1 else part.sum(dim, keepdim=True)


def normalised(g: Any, normal: Any, inverse: Any, dims: list[int], centred: bool) -> Any:
    """inverse (g - mean(g) - n mean(g n)), n = (x - mean) inverse; without mean(g) where n is not centred."""
    along = normal * (g * normal).mean(dims, keepdim=True)
    away = g - g.mean(dims, keepdim=True) if centred else g
    return inverse * (away - along)


def _sum(x: Any, dims: list[int]) -> Any:
    return x.sum(dims) if dims else x


@rule("native_layer_norm_backward")
def layer_norm(call: Call) -> Any:
    """By x, weight and bias."""
    g, x = call.follow(call.args[0]), call.follow(call.args[1])
    shape, weight, mask = call.args[2], call.args[5], call.args[7]
    mean, inverse = call.follow(call.args[3]), call.follow(call.args[4])
    split = x.dim() - len(shape)
    leading, dims = list(range(split)), list(range(split, x.dim()))
    normal = (x - mean) * inverse
    scaled = g if weight is None else g * call.follow(weight)
    by_x = normalised(scaled, normal, inverse, dims, centred=True) if mask[0] else None
    by_weight = _sum(g * normal, leading) if mask[1] and weight is not None else None
    return by_x, by_weight, _sum(g, leading) if mask[2] else None


@rule("_fused_rms_norm_backward")
def rms_norm(call: Call) -> Any:
    """By x and weight."""
    g, x, shape, inverse, weight, mask = call.args
    g, x, inverse = (call.follow(argument) for argument in (g, x, inverse))
    split = x.dim() - len(shape)
    leading, dims = list(range(split)), list(range(split, x.dim()))
    normal = x * inverse
    scaled = g if weight is None else g * call.follow(weight)
    by_x = normalised(scaled, normal, inverse, dims, centred=False) if mask[0] else None
    return by_x, _sum(g * normal, leading) if mask[1] and weight is not None else None


@rule("native_group_norm_backward")
def group_norm(call: Call) -> Any:
    """By x, weight and bias: a layer norm per sample and group of channels."""
    weight, samples, channels, places, groups, mask = call.args[4:]
    g, x, mean, inverse = (call.follow(argument) for argument in call.args[:4])
    rows = (samples, groups, -1)
    mean, inverse = (statistic.reshape(samples, groups, 1) for statistic in (mean, inverse))
    normal = (x.reshape(rows) - mean) * inverse
    flat = g.reshape(samples, channels, places)
    scaled = flat if weight is None else flat * call.follow(weight).reshape(1, -1, 1)
    by_x = by_weight = None
    if mask[0]:
        by_x = normalised(scaled.reshape(rows), normal, inverse, [2], centred=True).reshape(x.shape)
    if mask[1] and weight is not None:
        by_weight = (flat * normal.reshape(samples, channels, places)).sum([0, 2])
    return by_x, by_weight, flat.sum([0, 2]) if mask[2] else None


@rule("native_batch_norm_backward", "batch_norm_backward")
def batch_norm(call: Call) -> Any:
    """By x, weight and bias: a layer norm per channel, or a scale where the statistics were given."""
    g, x = call.follow(call.args[0]), call.follow(call.args[1])
    weight, training, eps, mask = call.args[2], call.args[7], call.args[8], call.args[9]
    dims, per_channel = [0, *range(2, x.dim())], (1, -1, *(1,) * (x.dim() - 2))
    if training:
        mean, inverse = call.follow(call.args[5]), call.follow(call.args[6])
    else:
        mean, inverse = call.follow(call.args[3]), torch.rsqrt(call.follow(call.args[4]) + eps)
    mean, inverse = mean.reshape(per_channel), inverse.reshape(per_channel)
    normal = (x - mean) * inverse
    scaled = g if weight is None else g * call.follow(weight).reshape(per_channel)
    by_x = None
    if mask[0]:
        by_x = normalised(scaled, normal, inverse, dims, centred=True) if training else scaled * inverse
    by_weight = (g * normal).sum(dims) if mask[1] and weight is not None else None
    return by_x, by_weight, g.sum(dims) if mask[2] else None
