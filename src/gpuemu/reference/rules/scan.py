"""Scans: running products, extremes and log-sum-exps; running sums are in `reduction`."""

from __future__ import annotations

from typing import Any

import torch

from gpuemu.reference.registry import Call, rule
from gpuemu.reference.rules.exact import is_raw
from gpuemu.reference.rules.extreme import monotone_error
from gpuemu.reference.rules.softmax import UNITS
from gpuemu.reference.step import to_operand

Tensor = torch.Tensor


@rule("cumprod")
def running_product(call: Call) -> Any:
    """prod (|x| + e) (1 + u)^n - |prod x|: any order of the factors, and a flush wherever it may happen."""
    arithmetic, dim = call.arithmetic, call.args[1]
    value, error = to_operand(call.args[0])
    result = value.cumprod(dim)
    if result.numel() == 0 or value.dim() == 0:
        return call.make(result, error)
    count = value.shape[dim]
    sizes = value.abs() if error is None else value.abs() + error
    growth = (1.0 + 1.01 * arithmetic.unit_roundoff) ** torch.arange(
        count, dtype=torch.float64, device=value.device
    )
    shape = [1] * value.dim()
    shape[dim] = count
    reach = sizes.cumprod(dim) * growth.reshape(shape)
    bound = (reach - result.abs()).clamp(min=0.0) + 2.0**-50 * reach
    # Some partial product may be flushed, or overflow, in another order: then the later factors scale that.
    largest = torch.cumprod(sizes.clamp(min=1.0), dim)
    bound = bound + torch.where(reach == 0, 0.0, arithmetic.underflow * largest)
    bound.narrow(dim, 0, 1).copy_(torch.zeros_like(bound.narrow(dim, 0, 1)) if error is None else
                                  error.narrow(dim, 0, 1))  # fmt: skip
    unknown = result.isfinite() & ~(largest * growth.reshape(shape) <= arithmetic.overflow)
    bound = torch.where(result.isfinite(), bound, 0.0)
    return call.make(result, torch.where(unknown, torch.inf, bound))


@rule("cummax", "cummin")
def running_extreme(call: Call) -> Any:
    """Two-sided; the place is uncertain wherever an element is, since another may be as extreme."""
    dim = call.args[1]
    value, error = to_operand(call.args[0])
    result, place = call.func(value, dim)
    if error is None:
        return call.make(result, None, is_raw(call.args[0])), place
    bound = monotone_error(lambda x: call.func(x, dim)[0], value, error, result)
    doubt = torch.where(error.cummax(dim)[0] > 0, torch.inf, 0.0)
    return call.make(result, bound, is_raw(call.args[0])), call.make(place, doubt)


@rule("logcumsumexp")
def running_log_sum(call: Call) -> Any:
    """Two-sided with 2u|x| more on each logit, and the rounding of a log-sum-exp (rule 6) at every step.

    A scan by log-add-exp rounds each of its partial results, which may be larger than the last.
    """
    arithmetic, dim = call.arithmetic, call.args[1]
    value, error = to_operand(call.args[0])
    result = torch.logcumsumexp(value, dim)
    if result.numel() == 0 or value.dim() == 0:
        return call.make(result, error)
    more = value.abs().nan_to_num(posinf=0.0, neginf=0.0) * (2.0 * arithmetic.unit_roundoff)
    spread = more if error is None else more + error
    bound = monotone_error(lambda x: torch.logcumsumexp(x, dim), value, spread, result)
    own = arithmetic.sum_share(value.shape[dim]) + UNITS * arithmetic.unit_roundoff
    partial = result.abs().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).cummax(dim).values
    bound = bound + own * partial.clamp(min=1.0) + partial * arithmetic.unit_roundoff
    return call.make(result, torch.where(result.isfinite() | (bound == torch.inf), bound, 0.0))


@rule("median.default", "nanmedian.default")
def middle(call: Call) -> Any:
    """An order statistic moves by no more than its elements may, since it is monotone in each."""
    value, error = to_operand(call.args[0])
    result = call.func(value)
    bound = None if error is None else monotone_error(call.func, value, error, result)
    return call.make(result, bound, is_raw(call.args[0]))


@rule("median.dim", "nanmedian.dim", "kthvalue", "mode")
def ranked(call: Call) -> Any:
    """As `middle`, along a dim; the place is uncertain where the elements are."""
    value, error = to_operand(call.args[0])
    rest = call.args[1:]
    result, place = call.func(value, *rest, **call.kwargs)
    if error is None:
        return call.make(result, None, is_raw(call.args[0])), place
    if call.name == "mode":  # a rounding may make equal what was not
        bound = torch.full_like(result, torch.inf)
    else:
        bound = monotone_error(lambda x: call.func(x, *rest, **call.kwargs)[0], value, error, result)
    return call.make(result, bound, is_raw(call.args[0])), call.make(place, torch.full_like(result, torch.inf))


@rule("aminmax")
def both_extremes(call: Call) -> Any:
    """The smallest and the largest element."""
    x = call.follow(call.args[0])
    dim, keepdim = call.kwargs.get("dim"), call.kwargs.get("keepdim", False)
    dims = [] if dim is None else [dim]
    return torch.amin(x, dims, keepdim), torch.amax(x, dims, keepdim)
