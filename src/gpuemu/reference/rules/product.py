"""Products over dims, multiplied in any order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from gpuemu.reference.accumulation import count, reduced_dims, sum_over
from gpuemu.reference.arithmetic import Arithmetic
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
    """As `error_of_products`, of all elements over some dims; the reduced dims are kept."""
    terms = count(value, dims)

    def multiply(x: Tensor) -> Tensor:
        for dim in dims:
            x = x.prod(dim, keepdim=True)
        return x

    return error_of_products(call.arithmetic, multiply, lambda x: sum_over(x, dims), [(value, error)], terms)


def error_of_products(
    arithmetic: Arithmetic,
    multiply: Callable[..., Tensor],
    add: Callable[..., Tensor],
    operands: Sequence[tuple[Tensor, Tensor | None]],
    terms: float | Tensor,
) -> Tensor:
    """|v| (exp(sum log(1 + e_i/|x_i|) + (n + 2) u) - 1), where no factor may be 0.

    To first order |v| (sum e_i/|x_i| + (n + 2) u): Higham, Accuracy and Stability of Numerical Algorithms
    (2002), lemma 3.1, with (1 + u)^k <= exp(k u). Beside an uncertain zero, all of prod(|x_i| + e_i) may be
    lost. A partial product, in whatever order, is at most the product of the factors above 1: beyond the range
    it is unknown. It may be flushed where the product of those below 1 is; the rest multiplies what is lost.

    Args:
        multiply: the products formed of the elements of tensors shaped like the operands; add: such sums.
        terms: how many elements go into a product.
    """
    sizes = [value.abs() for value, _ in operands]
    errors = [torch.zeros_like(value) if error is None else error for value, error in operands]
    uncertain = [torch.where(error.isfinite(), error, 0.0) for error in errors]

    def each(function: Callable[[Tensor, Tensor], Tensor]) -> list[Tensor]:
        return [function(size, off) for size, off in zip(sizes, uncertain, strict=True)]

    def count_of(flags: list[Tensor]) -> Tensor:
        return add(*(flag.double() for flag in flags)) > 0

    reach = each(lambda size, off: torch.where(size.isfinite(), size + off, 1.0))
    own: Any = (terms + 2) * arithmetic.unit_roundoff
    own = own.clamp(max=LARGEST_EXPONENT) if isinstance(own, Tensor) else min(own, LARGEST_EXPONENT)
    grown = own.exp() if isinstance(own, Tensor) else math.exp(own)
    largest = multiply(*(x.clamp(min=1.0) for x in reach)) * grown
    smallest = multiply(*each(lambda size, off: (size - off).clamp(min=0.0, max=1.0)))
    v, full = multiply(*sizes), multiply(*reach)
    ratios = each(lambda size, off: torch.where(size > 0, off / size, 0.0).nan_to_num(nan=0.0, posinf=0.0))
    relative = add(*(ratio.log1p() for ratio in ratios)).add_(own).expm1_()
    may_vanish = count_of(each(lambda size, off: (size <= off) & (off > 0)))
    bound = torch.where(may_vanish, full * grown + v, v * relative)
    flush = terms * arithmetic.underflow * largest
    is_zero = count_of(each(lambda size, off: (size == 0) & (off == 0)))
    bound += torch.where(smallest < arithmetic.underflow * grown, flush, 0.0)
    bound = torch.where(is_zero, 0.0, bound)
    unknown = count_of([~error.isfinite() for error in errors]) | ~(largest <= arithmetic.overflow)
    unknown |= v.isfinite() & ~(v + bound <= arithmetic.overflow)
    unknown |= v.isinf() & may_vanish  # the sign of the infinity, or NaN
    return torch.where(unknown, torch.inf, torch.where(v.isfinite(), bound, 0.0))
