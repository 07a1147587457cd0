"""Layer, group and RMS norms: decomposed, so that each step is bounded by its own rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from gpuemu.reference.arithmetic import Arithmetic
from gpuemu.reference.bounded import Bounded
from gpuemu.reference.constants import scalar
from gpuemu.reference.extent import Extent, extent_of, mark, measure
from gpuemu.reference.layer_norm import Rows, layer_norm_error, rms_norm_error
from gpuemu.reference.pieces import Piece, cut, pieces
from gpuemu.reference.registry import Call, rule

Tensor = torch.Tensor


def _normalise(x: Any, dims: list[int], eps: float) -> tuple[Any, Any, Any]:
    """(x - mean) / sqrt(variance + eps), the mean and the inverse root."""
    mean = x.mean(dims, keepdim=True)
    deviation = x - mean
    inverse = torch.rsqrt((deviation * deviation).mean(dims, keepdim=True) + eps)
    return deviation * inverse, mean, inverse


def _as_rows(x: Any, value: Tensor, mean: Tensor | None, inverse: Tensor, eps: float) -> Rows | None:
    """The norm over the last dims of x, over which mean and inverse root have size 1; None beyond all range."""
    extent = extent_of(x.value, x.error) or measure(x.value, x.error)
    if extent is None or x.numel() == 0:
        return None
    terms = x.numel() // inverse.numel()
    return Rows(
        x.value.reshape(-1, terms),
        None if x.error is None else x.error.reshape(-1, terms),
        value.reshape(-1, terms),
        None if mean is None else mean.reshape(-1, 1),
        inverse.reshape(-1, 1),
        eps,
        extent,
    )


def _normalise_rows(call: Call, x: Any, shape: Sequence[int], eps: float) -> tuple[Any, Any, Any]:
    """As `_normalise`, over the last dims, which have this shape; in closed form while all is in range."""
    value, mean, inverse = torch.native_layer_norm(x.value, shape, None, None, eps)
    rows = _as_rows(x, value, mean, inverse, eps)
    errors = None if rows is None else layer_norm_error(call.arithmetic, rows)
    if errors is None or errors.mean is None:
        return _normalise(x, list(range(x.dim() - len(shape), x.dim())), eps)
    error = errors.value.reshape(x.shape)
    mark(value, error, errors.extent)
    centre = call.make(mean, errors.mean.reshape(mean.shape))
    return call.make(value, error), centre, call.make(inverse, errors.inverse.reshape(inverse.shape))


@rule("native_layer_norm")
def layer_norm(call: Call) -> Any:
    """Two passes, then scale and shift; also gives mean and inverse root."""
    argument, shape, weight, bias, eps = call.args
    normalised, mean, inverse = _normalise_rows(call, call.follow(argument), shape, eps)
    return scale_and_shift(call, normalised, weight, bias), mean, inverse


def scale_and_shift(call: Call, y: Any, weight: Any, bias: Any) -> Any:
    """y w + b, either of which may be missing; in one step, in the memory of y, where w and b are exact.

    The rules' errors are e |w| + u |y w| + omega for the product, to which the sum adds u max(|y w|, |b|,
    |y w + b|) + omega; here with |y w| + |b|, up to twice that maximum. In coarse arithmetic the product's
    error grows by a factor 1 + u, and again in the sum.
    """
    w, b = (None if p is None else call.follow(p) for p in (weight, bias))
    extent = None if w is None or b is None else _extent_of_line(call.arithmetic, y, w, b)
    if extent is None or w is None or b is None:
        y = y if w is None else y * w
        return y if b is None else y + b
    arithmetic, value, error = call.arithmetic, y.value, y.error
    u, omega = arithmetic.unit_roundoff, arithmetic.underflow
    factor, constant = w.value.abs(), torch.add(scalar(2.0 * omega), b.value.abs(), alpha=u)
    if arithmetic.is_coarse:
        factor.mul_((1.0 + u) ** 2)
    whole: Piece = (0, 0, value.shape[0])
    for piece in pieces(value) or (whole,):
        v, e, f, c, scale, shift = (
            cut(t, value.dim(), piece) for t in (value, error, factor, constant, w.value, b.value)
        )
        torch.addcmul(c, e.add_(v.abs(), alpha=2.0 * u), f, out=e)
        torch.addcmul(shift, v, scale, out=v)
    mark(value, error, extent)
    return call.make(value, error)


def _extent_of_line(arithmetic: Arithmetic, y: Any, w: Any, b: Any) -> Extent | None:
    """The extent of y w + b; None unless w and b are exact, y is not, and all is known to be in range."""
    extents = [extent_of(t.value, t.error) for t in (y, w, b)]
    known = [extent for extent in extents if extent is not None]
    if len(known) < len(extents) or y.error is None or w.error is not None or b.error is not None:
        return None
    u, product = arithmetic.unit_roundoff, known[0].reach * known[1].reach
    own = 2.0 * u * (product + known[2].reach) + 3.0 * arithmetic.underflow
    error = (known[0].error * known[1].reach + own) * 2.0
    extent = Extent(product + known[2].reach + error, error)
    return extent if extent.reach <= arithmetic.overflow else None


@rule("native_group_norm")
def group_norm(call: Call) -> Any:
    """A layer norm per sample and group of channels, then a scale and shift per channel."""
    x, (samples, _, _, groups, eps) = call.follow(call.args[0]), call.args[3:]
    by_group = x.reshape(samples, groups, x.numel() // max(samples * groups, 1))
    y, mean, inverse = _normalise_rows(call, by_group, by_group.shape[2:], eps)
    y = _scale_channels(call, y.reshape(x.shape))
    return y, mean.reshape(samples, groups), inverse.reshape(samples, groups)


@rule("_fused_rms_norm")
def rms_norm(call: Call) -> Any:
    """x / sqrt(mean(x^2) + eps), times the weight; gives the inverse root as well."""
    argument, shape, weight, eps = call.args
    x = call.follow(argument)
    dims = list(range(x.dim() - len(shape), x.dim()))
    eps = call.arithmetic.literal(torch.finfo(x.dtype).eps if eps is None else eps)
    y, inverse = _divide_by_root(call, x, dims, eps)
    return (y if weight is None else y * call.follow(weight)), inverse


def _divide_by_root(call: Call, x: Any, dims: list[int], eps: float) -> tuple[Any, Any]:
    """x / sqrt(mean(x^2) + eps) over the last dims, and the inverse root; in closed form if all is in range."""
    terms = math.prod(x.shape[d] for d in dims)
    if x.numel():
        rows = x.value.reshape(-1, terms)
        square = torch.linalg.vecdot(rows, rows).unsqueeze(1)
        root = square.div_(terms).add_(eps).rsqrt_()
        value = rows * root
        found = _as_rows(x, value, None, root, eps)
        errors = None if found is None else rms_norm_error(call.arithmetic, found)
        if errors is not None:
            value, error = value.reshape(x.shape), errors.value.reshape(x.shape)
            mark(value, error, errors.extent)
            kept = [1 if d in dims else size for d, size in enumerate(x.shape)]
            return call.make(value, error), call.make(root.reshape(kept), errors.inverse.reshape(kept))
    inverse = torch.rsqrt(x.pow(2).mean(dims, keepdim=True) + eps)
    return x * inverse, inverse


@rule("native_batch_norm", "_native_batch_norm_legit_no_training", "_native_batch_norm_legit.no_stats")
def batch_norm(call: Call) -> Any:
    """A layer norm per channel over samples and places, or with given statistics; then a scale and shift."""
    x, eps = call.follow(call.args[0]), call.args[-1]
    given = call.args[3:5] if call.func._overloadname != "no_stats" else (None, None)
    trains = call.name == "native_batch_norm" and call.args[5]
    if given != (None, None) and not trains:
        return _batch_norm_with_statistics(call, x, given, eps)
    y, mean, inverse = _normalise(x, [0, *range(2, x.dim())], eps)
    if given != (None, None):
        _update_statistics(x, given, mean.reshape(-1), call.args[6])
    return _scale_channels(call, y), mean.reshape(-1), inverse.reshape(-1)


def _update_statistics(x: Any, running: tuple[Any, Any], mean: Any, momentum: float) -> None:
    """running (1 - m) + batch m, with the unbiased variance, where the statistic is an input."""
    count = x.numel() // x.shape[1]
    variance = x.var([0, *range(2, x.dim())], correction=1 if count > 1 else 0)
    for statistic, batch in zip(running, (mean, variance), strict=True):
        if type(statistic) is Bounded:
            statistic.mul_(1.0 - momentum).add_(batch * momentum)


def _batch_norm_with_statistics(call: Call, x: Any, given: tuple[Any, Any], eps: float) -> Any:
    """x a + (b - mean a) with a = weight / sqrt(variance + eps): folded, as kernels for inference do."""
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
