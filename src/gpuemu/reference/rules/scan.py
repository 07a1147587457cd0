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


@rule("median.dim", "nanmedian.dim", "kthvalue")
def ranked(call: Call) -> Any:
    """As `middle`, along a dim; the place is uncertain beside elements that may be of that rank as well."""
    value, error = to_operand(call.args[0])
    dim, keepdim = (2, 3) if call.name == "kthvalue" else (1, 2)
    dim, keepdim = call.argument(dim, "dim", -1), call.argument(keepdim, "keepdim", False)
    result, place = call.func(value, *call.args[1:], **call.kwargs)
    bound = None
    if error is not None:
        bound = monotone_error(lambda x: call.func(x, *call.args[1:], **call.kwargs)[0], value, error, result)
    followed = call.make(result, bound, is_raw(call.args[0]))
    if not value.dim() or not place.numel():
        return followed, place
    kept = place if keepdim else place.unsqueeze(dim)
    highest, lowest = (value, value) if error is None else (value + error, value - error)
    apart = (highest < lowest.gather(dim, kept)) | (lowest > highest.gather(dim, kept))
    return followed, with_doubt(call, place, (~apart).sum(dim, keepdim=keepdim) > 1)


def with_doubt(call: Call, place: Tensor, doubt: Tensor) -> Tensor:
    """Places, plain if none is in doubt, else with error inf where they are."""
    return call.make(place, torch.where(doubt, torch.inf, 0.0).double()) if bool(doubt.any()) else place


@rule("mode")
def most_frequent(call: Call) -> Any:
    """A value that appears most often along a dim, and a place where it stands: any of them.

    Of several such values torch's documentation promises none. Where a rounding may make equal what was not,
    or the other way round, the result is some element.
    """
    value, error = to_operand(call.args[0])
    dim, keepdim = call.argument(1, "dim", -1), call.argument(2, "keepdim", False)
    result, place = call.func(value, dim, keepdim)
    if not value.dim() or not place.numel():
        return call.make(result, error, is_raw(call.args[0])), place
    ordered = value.sort(dim).values
    candidates = torch.ones_like(ordered, dtype=torch.bool)
    if error is None:
        steps = torch.cat((torch.zeros_like(ordered.narrow(dim, 0, 1)), ordered.diff(dim=dim)), dim)
        runs = (steps != 0).long().cumsum(dim)
        counts = torch.zeros_like(ordered).scatter_add_(dim, runs, torch.ones_like(ordered)).gather(dim, runs)
        candidates = counts == counts.amax(dim, keepdim=True)
    kept = result if keepdim else result.unsqueeze(dim)
    distance = torch.where(ordered == kept, 0.0, (ordered - kept).abs()).nan_to_num(nan=torch.inf)
    bound = torch.where(candidates, distance, 0.0).amax(dim, keepdim=keepdim)
    if error is not None:
        bound = bound + error.amax(dim, keepdim=keepdim)
    several = torch.full(place.shape, value.shape[dim] > 1, device=place.device)
    exact = error is None and not bool((bound != 0).any())
    return call.make(result, None if exact else bound, is_raw(call.args[0])), with_doubt(call, place, several)


@rule("aminmax")
def both_extremes(call: Call) -> Any:
    """The smallest and the largest element."""
    x = call.follow(call.args[0])
    dim, keepdim = call.kwargs.get("dim"), call.kwargs.get("keepdim", False)
    dims = [] if dim is None else [dim]
    return torch.amin(x, dims, keepdim), torch.amax(x, dims, keepdim)
