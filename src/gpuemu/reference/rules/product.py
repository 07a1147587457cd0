"""Products over dims, multiplied in any order."""

from __future__ import annotations

import math
from typing import Any

import torch

from gpuemu.reference.accumulation import count, reduced_dims, sum_over
from gpuemu.reference.bounded import Bounded
from gpuemu.reference.registry import Call, rule
from gpuemu.reference.rules.generic import generic
from gpuemu.reference.step import to_operand

Tensor = torch.Tensor

LARGEST_EXPONENT = 700.0  # whose exponential is a float64 number still


@rule("prod")
def product_over(call: Call) -> Any:
    """The product of all elements, or along a dim: prod(x), prod(x, dim, keepdim)."""
    x = call.args[0]
    whole = call.func._overloadname == "default"
    dims = reduced_dims(x, None if whole else call.argument(1, "dim"))
    keepdim = not whole and call.argument(2, "keepdim", False)
    plain = x.value if type(x) is Bounded else x
    result = call.func(plain, *call.args[1:], **call.kwargs)
    value, error = to_operand(x)
    if not result.is_floating_point():  # integers, which do not round
        return result if error is None else generic(call)
    result = call.func(value, *call.args[1:], **{**call.kwargs, "dtype": None})
    if value.numel() == 0:
        return call.make(result)  # products of no factors are 1, exactly
    bound = product_error(call, value, error, dims)
    return call.make(result, bound if keepdim else bound.reshape(result.shape))


def product_error(call: Call, value: Tensor, error: Tensor | None, dims: list[int]) -> Tensor:
    """|v| (exp(sum log(1 + e_i/|x_i|) + (n + 2) u) - 1), where no factor may be 0; the reduced dims are kept.

    To first order |v| (sum e_i/|x_i| + (n + 2) u): Higham, Accuracy and Stability of Numerical Algorithms
    (2002), lemma 3.1, with (1 + u)^k <= exp(k u). Beside an uncertain zero, all of prod(|x_i| + e_i) may be
    lost. A partial product, in whatever order, is at most the product of the factors above 1: beyond the range
    it is unknown. It may be flushed where the product of those below 1 is; the rest multiplies what is lost.
    """
    arithmetic, size = call.arithmetic, value.abs()
    error = torch.zeros_like(size) if error is None else error
    terms = count(value, dims)
    finite = value.isfinite()
    uncertain = torch.where(error.isfinite(), error, 0.0)
    reach = torch.where(finite, size + uncertain, 1.0)
    own = (terms + 2) * arithmetic.unit_roundoff
    grown = math.exp(min(own, LARGEST_EXPONENT))
    largest = _over(reach.clamp(min=1.0), dims) * grown
    smallest = _over((size - uncertain).clamp(min=0.0, max=1.0), dims)
    v, full = _over(size, dims), _over(reach, dims)
    ratio = torch.where(size > 0, uncertain / size, 0.0).nan_to_num(nan=0.0, posinf=0.0)
    relative = sum_over(ratio.log1p(), dims).add_(own).expm1_()
    may_vanish = _any_over((size <= uncertain) & (uncertain > 0), dims)
    bound = torch.where(may_vanish, full * grown + v, v * relative)
    flush = terms * arithmetic.underflow * largest
    is_zero = _any_over((size == 0) & (uncertain == 0), dims)
    bound += torch.where(smallest < arithmetic.underflow * grown, flush, 0.0)
    bound = torch.where(is_zero, 0.0, bound)
    unknown = _any_over(~error.isfinite(), dims) | ~(largest <= arithmetic.overflow)
    unknown |= v.isfinite() & ~(v + bound <= arithmetic.overflow)
    unknown |= v.isinf() & may_vanish  # the sign of the infinity, or NaN
    return torch.where(unknown, torch.inf, torch.where(v.isfinite(), bound, 0.0))


def _over(x: Tensor, dims: list[int]) -> Tensor:
    """The product over all of some dims, which are kept."""
    for dim in dims:
        x = x.prod(dim, keepdim=True)
    return x


def _any_over(x: Tensor, dims: list[int]) -> Tensor:
    for dim in dims:
        x = x.any(dim, keepdim=True)
    return x
