"""Sums of products (rule 5): any order, any blocking, tensor cores with truncating accumulators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from gpuemu.reference.arithmetic import Arithmetic
from gpuemu.reference.bounded import Bounded
from gpuemu.reference.constants import scalar
from gpuemu.reference.extent import Extent, extent_of, mark, size_of
from gpuemu.reference.lowest_bit import lowest_bit, may_share_lowest_bit
from gpuemu.reference.step import Operand, is_settled, to_operand
from gpuemu.rounding import round_to

if TYPE_CHECKING:
    from gpuemu.reference.dispatch import Evaluation

Tensor = torch.Tensor
Bilinear = Callable[[Tensor, Tensor], Tensor]
# Elements of one line that are looked at first, for whether at most one is not 0.
_LOOKED_AT = 16


def contract(
    evaluation: Evaluation, function: Bilinear, a: Any, b: Any, terms: int, by_rows: bool = False
) -> Bounded:
    """Value and error of a bilinear `function` that sums `terms` products per element.

    e = |A| e_B + e_A (|B| + e_B) + g(K) u (|A| + e_A)(|B| + e_B) + K omega, where e_A and e_B include the
    permitted operand roundings. For one product per element, the others being 0 for certain, g is that of the
    product alone, and there is no rounding where it is representable (rule 8).

    Args:
        by_rows: the sum runs over the last dim of a and the last but one (or only) of b, and nothing but these
            products is ever added: not so for convolutions, of which Winograd's algorithm mixes elements.
    """
    arithmetic = evaluation.arithmetic
    if arithmetic.operand_rounding and not all(type(x) is not Bounded or x.raw for x in (a, b)):
        evaluation.permissions["operand_rounding"] = None
    (value_a, error_a), (value_b, error_b) = permitted_operand(arithmetic, a), permitted_operand(arithmetic, b)
    value = function(value_a, value_b)
    extent = _extent(arithmetic, (value_a, error_a), (value_b, error_b), terms)
    size_a, size_b = size_of(value_a), size_of(value_b)
    growth, flush = arithmetic.contraction_share(terms), terms * arithmetic.sum_underflow
    single = by_rows and (
        (error_a is None and has_single_entries(value_a, -1))
        or (error_b is None and has_single_entries(value_b, max(-2, -value_b.dim())))
    )
    if single:
        growth, flush = min(growth, _single_share(arithmetic)), arithmetic.sum_underflow
    if error_a is None and error_b is None:
        error = function(size_a, size_b)
        if extent is None and _overflows(arithmetic, error):
            return evaluation.make(value, careful_contraction(arithmetic, function, a, b, value, terms))
        if single:
            exact = _certify_products(arithmetic, error, growth, flush)
        else:
            exact = _certify(arithmetic, value_a, value_b, error, growth, flush)
        mark(value, None if exact else error, extent)
        return evaluation.make(value, None if exact else error)
    if error_b is not None:
        reach_b = size_b + error_b
        error = function(size_a, error_b.add(reach_b, alpha=growth))
        if error_a is not None:
            error.add_(function(error_a, reach_b), alpha=1.0 + growth)
        error.add_(flush)
    elif error_a is not None:
        error = function(torch.add(error_a, size_a, alpha=growth / (1.0 + growth)), size_b)
        torch.add(scalar(flush), error, alpha=1.0 + growth, out=error)
    if extent is not None:
        mark(value, error, extent)
        return evaluation.make(value, error)
    # The partial sums stay in range if |A||B| and the errors do: bounded by the largest factors, else summed.
    largest = terms * _largest(size_a) * _largest(size_b) + _largest(error)
    limit = arithmetic.sum_overflow
    in_range = largest <= limit or not _overflows(arithmetic, function(size_a, size_b) + error)
    if in_range and is_settled(arithmetic, value, error):
        return evaluation.make(value, error)
    return evaluation.make(value, careful_contraction(arithmetic, function, a, b, value, terms))


def _extent(arithmetic: Arithmetic, a: Operand, b: Operand, terms: int) -> Extent | None:
    """The product's extent by those of its operands; None unless all partial sums are in range."""
    known_a, known_b = extent_of(*a), extent_of(*b)
    if known_a is None or known_b is None:
        return None
    size = terms * known_a.reach * known_b.reach
    off = terms * (known_a.reach * known_b.error + known_a.error * known_b.reach)
    off += arithmetic.contraction_share(terms) * size + terms * arithmetic.sum_underflow
    off *= 1.0 + 2.0**-40
    in_range = size + off <= min(arithmetic.overflow, arithmetic.sum_overflow)
    return Extent((size + off) * (1.0 + 2.0**-40), off) if in_range else None


def permitted_operand(arithmetic: Arithmetic, operand: Any) -> tuple[Tensor, Tensor | None]:
    """Value and error of a contraction's operand, with the roundings that the profile permits (section 2.4).

    A computed operand may be rounded to the storage dtype, where a large one may overflow; tf32 truncates any.
    """
    value, error = to_operand(operand)
    computed = type(operand) is Bounded and not operand.raw
    if arithmetic.operand_rounding and computed:
        storage = arithmetic.storage
        rounding = torch.add(
            scalar(storage.smallest_subnormal / 2.0), size_of(value), alpha=storage.unit_roundoff
        )
        if error is None:
            rounding = torch.where(round_to(value, storage.name) == value, 0.0, rounding)
        if storage.max < arithmetic.overflow:
            rounding = torch.where(
                value.isfinite() & (value.abs() + rounding > storage.max), torch.inf, rounding
            )
        if error is not None:
            error = rounding.add_(error)
        elif bool(rounding.any()):
            error = rounding
    if arithmetic.tf32:
        size = size_of(value)
        error = size * arithmetic.tf32 if error is None else torch.add(error, size, alpha=arithmetic.tf32)
    return value, error


def _largest(size: Tensor) -> float:
    return float(size.max()) if size.numel() else 0.0


def _overflows(arithmetic: Arithmetic, total: Tensor) -> bool:
    """Whether a sum of magnitudes leaves the range or is not finite."""
    return total.numel() > 0 and not bool(total.max() <= arithmetic.sum_overflow)


def _certify(arithmetic: Arithmetic, a: Tensor, b: Tensor, total: Tensor, growth: float, flush: float) -> bool:
    """Turn the sum of magnitudes M into the rounding error; true if no element has any (rule 8).

    All partial sums are multiples of q = lsb(A) lsb(B); below 2^(p - 1) q they are exact in every order.
    """
    if total.numel() == 0:
        return True
    if not may_share_lowest_bit(arithmetic.exact_quanta(contraction=True), total.amin(), a, b):
        torch.add(scalar(flush), total, alpha=growth, out=total)
        return False
    quantum = lowest_bit(a) * lowest_bit(b)
    limit = quantum * arithmetic.exact_quanta(contraction=True) if quantum >= arithmetic.sum_underflow else -1.0
    if float(total.max()) <= limit:
        return True
    exact = total <= limit
    total.mul_(growth).add_(flush).masked_fill_(exact, 0.0)
    return False


def has_single_entries(x: Tensor, dim: int) -> bool:
    """Whether no line along a dim holds more than one number that is not 0.

    The start of one line tells almost always that it does.
    """
    line = x.movedim(dim, -1) if dim != -1 else x
    start = line
    while start.dim() > 1:
        if start.shape[0] == 0:
            return False
        start = start[0]
    if sum(number != 0 for number in start[:_LOOKED_AT].tolist()) > 1:
        return False
    return line.numel() > 0 and int((line != 0).sum(-1).amax()) <= 1


def _single_share(arithmetic: Arithmetic) -> float:
    """What one product loses: it is rounded or truncated as it is added to zeros, and then to the result."""
    return 2.0 * max(arithmetic.contraction_roundoff, arithmetic.unit_roundoff)


def _certify_products(arithmetic: Arithmetic, size: Tensor, growth: float, flush: float) -> bool:
    """Turn the magnitudes of single products into their rounding errors; true if none has any (rule 8)."""
    exact = (size >= arithmetic.sum_underflow) | (size == 0)
    if arithmetic.compute is None:
        exact = size == 0
    else:  # no more significant bits than the accumulator has
        bits = 1 + round(math.log2(arithmetic.exact_quanta(contraction=True)))
        exact &= (size.view(torch.int64) & ((1 << (53 - bits)) - 1)) == 0
    if bool(exact.all()):
        return True
    size.mul_(growth).add_(flush).masked_fill_(exact, 0.0)
    return False


def careful_contraction(
    arithmetic: Arithmetic, function: Bilinear, a: Any, b: Any, value: Tensor, terms: int
) -> Tensor:
    """The error of a contraction with operands that are not finite, or whose sums may overflow.

    Where an operand is NaN for certain, so is the sum: whatever else overflows or is unknown.
    """
    sizes, errors, unknown, nan = [], [], [], []
    for operand in (a, b):
        v, e = permitted_operand(arithmetic, operand)
        own = to_operand(operand)[1]
        error = torch.zeros_like(v) if e is None else torch.where(v.isfinite(), e, 0.0 if own is None else own)
        sizes.append(v.abs().nan_to_num(nan=0.0, posinf=0.0))
        unknown.append((~error.isfinite()).double())
        nan.append((v.isnan() & error.isfinite()).double())
        errors.append(torch.where(v.isfinite(), error, 0.0).nan_to_num(nan=0.0, posinf=0.0))
    (size_a, size_b), (error_a, error_b) = sizes, errors
    total = function(size_a, size_b)
    error = function(size_a, error_b) + function(error_a, size_b + error_b)
    error.add_(total + error, alpha=arithmetic.contraction_share(terms))
    error.add_(terms * arithmetic.sum_underflow)
    tainted, certain = (
        function(marks[0], torch.ones_like(size_b)) + function(torch.ones_like(size_a), marks[1]) > 0
        for marks in (unknown, nan)
    )
    if not bool(error_a.any()) and not bool(error_b.any()):
        finite = [to_operand(x)[0].nan_to_num(nan=0.0, posinf=0.0, neginf=0.0) for x in (a, b)]
        quantum = lowest_bit(finite[0]) * lowest_bit(finite[1])
        if quantum >= arithmetic.sum_underflow:
            error = torch.where(total <= quantum * arithmetic.exact_quanta(contraction=True), 0.0, error)
    overflowed = value.isfinite() & (value.abs() + error > arithmetic.sum_overflow)
    overflowed |= total + error > arithmetic.sum_overflow
    error = torch.where(value.isfinite(), error, 0.0)
    return torch.where((overflowed | tainted) & ~certain, torch.inf, error)
