"""Rule 6: sums, means, norms and variances."""

from __future__ import annotations

import math
from typing import Any

import torch

from gpuemu.reference.accumulation import (
    count,
    exact_limit,
    extent_of_sum,
    mean_error,
    reduced_dims,
    sum_error,
    sum_over,
)
from gpuemu.reference.bounded import Bounded
from gpuemu.reference.elementwise import elementwise
from gpuemu.reference.extent import carry, is_positive, mark, mark_positive
from gpuemu.reference.lowest_bit import may_share_lowest_bit
from gpuemu.reference.registry import Call, rule
from gpuemu.reference.step import Loss, to_operand

Tensor = torch.Tensor

# The root of a sum of squares: no rounding makes its argument negative, so it has no edge to fall off.
ROOT = Loss(4.0)


@rule("sum")
def sum_(call: Call) -> Any:
    """The sum over some dims."""
    x = call.args[0]
    dims, keepdim = reduced_dims(x, call.argument(1, "dim")), call.argument(2, "keepdim", False)
    value, error = to_operand(x)
    plain = x.value if type(x) is Bounded else x
    if not plain.is_floating_point():
        result = call.func(plain, *call.args[1:], **call.kwargs)
        if not result.is_floating_point():  # integers and bools: exact sums
            return result if error is None else call.make(result, _fit(sum_over(error, dims), result, keepdim))
    result = call.func(value, *call.args[1:], **{**call.kwargs, "dtype": None})
    if is_positive(value):
        mark_positive(result)
    bound = _fit(sum_error(call.arithmetic, value, error, dims), result, keepdim)
    mark(result, bound, extent_of_sum(call.arithmetic, value, error, count(value, dims)))
    return call.make(result, bound)


@rule("mean")
def mean(call: Call) -> Any:
    """The sum over n."""
    x = call.args[0]
    dims, keepdim = reduced_dims(x, call.argument(1, "dim")), call.argument(2, "keepdim", False)
    value, error = to_operand(x)
    result = call.func(value, *call.args[1:], **{**call.kwargs, "dtype": None})
    if is_positive(value):
        mark_positive(result)
    kept = result.reshape([1 if d in dims else size for d, size in enumerate(value.shape)])
    carry(result, None, kept, None)
    bound = _fit(mean_error(call.arithmetic, value, error, dims, kept), result, keepdim)
    mark(result, bound, extent_of_sum(call.arithmetic, value, error, count(value, dims), mean=True))
    return call.make(result, bound)


def _fit(error: Tensor | None, result: Tensor, keepdim: bool) -> Tensor | None:
    """An error whose reduced dims were kept, in the result's shape."""
    return error if error is None or keepdim else error.reshape(result.shape)


@rule("cumsum")
def cumulative_sum(call: Call) -> Any:
    """Sums over prefixes: cumsum e + g(n) u cumsum |x| + n omega, n the length of the dim."""
    arithmetic, dim = call.arithmetic, call.args[1]
    value, error = to_operand(call.args[0])
    result = value.cumsum(dim)
    if result.numel() == 0:
        return call.make(result)
    terms = value.shape[dim] if value.dim() else 1
    finite = value.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    size = finite.abs().cumsum(dim)
    total = size * arithmetic.sum_share(terms)
    total += size.clamp(max=arithmetic.sum_underflow) * terms
    if error is not None:
        total += error.cumsum(dim)
    elif may_share_lowest_bit(arithmetic.exact_quanta(), size.amin(), value):
        total.masked_fill_(size <= exact_limit(arithmetic, finite), 0.0)
    unknown = ~(size + total <= arithmetic.sum_overflow)
    return call.make(result, torch.where(unknown, torch.inf, torch.where(result.isfinite(), total, 0.0)))


@rule("linalg_vector_norm")
def vector_norm(call: Call) -> Any:
    """Norms by their definition."""
    x, order = call.follow(call.args[0]), float(call.argument(1, "ord", 2))
    dims, keepdim = reduced_dims(x, call.argument(2, "dim")), call.argument(3, "keepdim", False)
    if order == math.inf:
        return x.abs().amax(dims, keepdim=keepdim)
    if order == -math.inf:
        return x.abs().amin(dims, keepdim=keepdim)
    if order == 0:
        return (x != 0).sum(dims, keepdim=keepdim).double()
    if order == 1:
        return x.abs().sum(dims, keepdim=keepdim)
    if order == 2:
        return _root(call, (x * x).sum(dims, keepdim=keepdim))
    return x.abs().pow(order).sum(dims, keepdim=keepdim).pow(1.0 / order)


def _root(call: Call, total: Any) -> Bounded:
    return elementwise(call.evaluation, lambda t: t.clamp(min=0.0).sqrt(), [to_operand(total)], ROOT)


@rule("var.correction", "std.correction", "var_mean.correction", "std_mean.correction")
def variance(call: Call) -> Any:
    """Two passes: the mean of squared deviations, times n / (n - correction); std is its root."""
    x = call.follow(call.args[0])
    dims, keepdim = reduced_dims(x, call.argument(1, "dim")), call.kwargs.get("keepdim", False)
    correction = call.kwargs.get("correction")
    terms = count(x, dims)
    divisor = max(terms - (1 if correction is None else correction), 0)
    centre = x.mean(dims, keepdim=True)
    deviation = x - centre
    # By a mean, not a sum: the certificate must not hold for a variance (rule 8).
    spread = (deviation * deviation).mean(dims, keepdim=keepdim) * (terms / divisor if divisor else math.inf)
    result = _root(call, spread) if call.name.startswith("std") else spread
    if not call.name.endswith("_mean"):
        return result
    return result, centre if keepdim else centre.reshape(result.shape)
