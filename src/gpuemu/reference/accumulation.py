"""Sums and means of any order (rule 6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from gpuemu.reference.arithmetic import Arithmetic
from gpuemu.reference.extent import Extent, extent_of, is_positive, size_of
from gpuemu.reference.lowest_bit import lowest_bit, may_share_lowest_bit
from gpuemu.reference.pieces import in_pieces, is_call_bound
from gpuemu.reference.step import is_settled

Tensor = torch.Tensor


def reduced_dims(x: Tensor, dim: Any) -> list[int]:
    """The dims that are reduced, not negative: all of them for None or an empty list."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return list(range(x.dim()))
    dims = [dim] if isinstance(dim, int) else list(dim)
    return [d % x.dim() for d in dims] if x.dim() else []


def count(x: Tensor, dims: Sequence[int]) -> int:
    """How many elements are reduced to one."""
    return math.prod(x.shape[d] for d in dims)


def sum_over(x: Tensor, dims: list[int]) -> Tensor:
    """The sum with the reduced dims kept; torch takes no dims for all of them."""
    return x.sum(dims, keepdim=True) if dims else x.clone()


def size_over(x: Tensor, dims: list[int]) -> Tensor:
    """The sum of magnitudes with the reduced dims kept."""
    if is_positive(x):
        return sum_over(x, dims)
    if dims and is_call_bound(x) and not hasattr(x, "known_size"):
        size: Tensor = torch.linalg.vector_norm(x, 1, dims, keepdim=True)
        return size
    return in_pieces(lambda x: sum_over(size_of(x), dims), x, dims, x)


def sum_error(
    arithmetic: Arithmetic, value: Tensor, error: Tensor | None, dims: list[int], certified: bool = True
) -> Tensor | None:
    """sum e + g(n) u sum (|x| + e) + n omega, with the reduced dims kept; None if the sum is exact.

    Args:
        certified: whether sums below 2^(p - 1) quanta count as exact (rule 8).
    """
    size = size_over(value, dims)
    if size.numel() == 0:
        return None
    terms, limit, quanta = count(value, dims), -1.0, arithmetic.exact_quanta()
    if certified and error is None and may_share_lowest_bit(quanta, size.amin(), value):
        limit = exact_limit(arithmetic, value)
        if float(size.max()) <= min(limit, arithmetic.sum_overflow):
            return None
    propagated = None if error is None else sum_over(error, dims)
    result = _rounding(arithmetic, size, propagated, terms)
    if limit > 0.0:
        result.masked_fill_(size <= limit, 0.0)
    if propagated is not None:
        result.add_(propagated)
    if extent_of_sum(arithmetic, value, error, terms) is not None:
        return result
    narrow = arithmetic.sum_overflow < arithmetic.overflow
    if is_settled(arithmetic, size, result) and not (narrow and _overflows(arithmetic, size + result)):
        return result
    return _careful_sum_error(arithmetic, value, error, dims, certified)


def extent_of_sum(
    arithmetic: Arithmetic, value: Tensor, error: Tensor | None, terms: int, mean: bool = False
) -> Extent | None:
    """The extent of sums or means of so many terms, by that of the terms; None unless all are in range."""
    known = extent_of(value, error)
    if known is None:
        return None
    size = terms * known.reach
    off = terms * known.error + arithmetic.sum_share(terms) * (size + terms * known.error)
    off = (off + terms * arithmetic.sum_underflow) * (1.0 + 2.0**-40)
    if not size + off <= min(arithmetic.overflow, arithmetic.sum_overflow):
        return None
    if not mean:
        return Extent(size + off, off)
    off = off / max(terms, 1) + arithmetic.unit_roundoff * known.reach
    return Extent((known.reach + off) * (1.0 + 2.0**-40), off * (1.0 + 2.0**-40))


def exact_limit(arithmetic: Arithmetic, value: Tensor) -> float:
    """Sums of magnitudes up to this are exact in every order; negative if none are."""
    quantum = lowest_bit(value)
    return quantum * arithmetic.exact_quanta() if quantum >= arithmetic.sum_underflow else -1.0


def _rounding(arithmetic: Arithmetic, size: Tensor, propagated: Tensor | None, terms: int) -> Tensor:
    """g(n) u sum (|x| + e), and what flushes lose: no more than there is, so that a sum of zeros is exact."""
    reach = size if propagated is None else size + propagated
    flush = reach.clamp(max=arithmetic.sum_underflow).mul_(terms)
    return flush.add_(reach, alpha=arithmetic.sum_share(terms))


def _overflows(arithmetic: Arithmetic, reach: Tensor) -> bool:
    return not bool(reach.max() <= arithmetic.sum_overflow)


def _careful_sum_error(
    arithmetic: Arithmetic, value: Tensor, error: Tensor | None, dims: list[int], certified: bool
) -> Tensor:
    """As `sum_error`, with elements that are not finite: they carry no error, and their sum has none.

    A NaN that is certain makes the sum NaN, whatever else overflows or is unknown.
    """
    finite = value.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    size, total = sum_over(finite.abs(), dims), sum_over(value, dims)
    unknown, propagated = torch.zeros_like(size, dtype=torch.bool), torch.zeros_like(size)
    if error is not None:
        unknown = sum_over((~error.isfinite()).double(), dims) > 0
        propagated = sum_over(torch.where(error.isfinite(), error, 0.0), dims)
    rounding = _rounding(arithmetic, size, propagated, count(value, dims))
    if certified and error is None:
        rounding.masked_fill_(size <= exact_limit(arithmetic, finite), 0.0)
    result = propagated + rounding
    unknown |= size + propagated > arithmetic.sum_overflow
    unknown |= total.isfinite() & (total.abs() + result > arithmetic.sum_overflow)
    nan = value.isnan() if error is None else value.isnan() & error.isfinite()
    unknown &= ~(sum_over(nan.double(), dims) > 0)
    return torch.where(unknown, torch.inf, torch.where(total.isfinite(), result, 0.0))


def gathered_error(
    arithmetic: Arithmetic,
    gather: Callable[..., Tensor],
    operands: Sequence[tuple[Tensor, Tensor | None]],
    terms: int,
    certified: bool = True,
) -> Tensor:
    """As `sum_error`, for any sums that `gather` forms of the operands' elements; inf where one is unknown.

    Args:
        gather: sums elements of tensors shaped like the operands' values, with weights 1 and 0.
        terms: how many elements go into a sum, at most.
        certified: as for `sum_error`.
    """
    finite = [value.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0) for value, _ in operands]
    size = gather(*(value.abs() for value in finite))
    errors = [torch.zeros_like(value) if error is None else error for value, error in operands]
    propagated = gather(*(torch.where(error.isfinite(), error, 0.0) for error in errors))
    rounding = _rounding(arithmetic, size, propagated, terms)
    if certified and all(error is None for _, error in operands):
        limit = min(exact_limit(arithmetic, value) for value in finite)
        rounding.masked_fill_(size <= limit, 0.0)
    error = propagated + rounding
    unknown = gather(*((~error.isfinite()).double() for error in errors)) > 0
    return torch.where(unknown | (size + error > arithmetic.sum_overflow), torch.inf, error)


def mean_error(
    arithmetic: Arithmetic, value: Tensor, error: Tensor | None, dims: list[int], result: Tensor
) -> Tensor:
    """The sum's error over n, plus u |mean|; reduced dims kept. Never exact: running means are legitimate.

    Args:
        result: the mean with the reduced dims kept.
    """
    terms, u = count(value, dims), arithmetic.unit_roundoff
    if terms and result.numel() and extent_of_sum(arithmetic, value, error, terms) is not None:
        reach = result * terms if is_positive(result) else size_over(value, dims)
        propagated = None if error is None else sum_over(error, dims)
        if propagated is not None:
            reach = reach + propagated
        flush = reach.clamp(max=arithmetic.sum_underflow)  # of each term, over their number
        # The rounding of a mean that is not negative can go with the sum's: it counts the errors once more.
        merged = is_positive(result) and not arithmetic.is_coarse
        share = flush.add_(reach, alpha=(arithmetic.sum_share(terms) + (u if merged else 0.0)) / terms)
        if propagated is not None:
            share.add_(propagated, alpha=1.0 / terms)
        return share if merged else share.add_(size_of(result), alpha=u)
    total = sum_error(arithmetic, value, error, dims, certified=False)
    if total is None:  # no elements
        return torch.zeros_like(result)
    share = (total / terms).add_(result.abs(), alpha=u)
    if bool(share.max() < torch.inf):
        return share
    return torch.where(result.isfinite() | (total == torch.inf), share, 0.0)
