"""Rule 6: softmax, log-softmax and log-sum-exp, any formula (three-pass, online, folded log2 e)."""

from __future__ import annotations

import math
from typing import Any

import torch

from gpuemu.reference.accumulation import count, reduced_dims
from gpuemu.reference.arithmetic import Arithmetic
from gpuemu.reference.constants import number_tensor, scalar
from gpuemu.reference.extent import Extent, extent_of, is_shared, mark, mark_positive, size_of
from gpuemu.reference.pieces import in_pieces
from gpuemu.reference.registry import Call, rule
from gpuemu.reference.step import is_settled, is_within, to_operand

Tensor = torch.Tensor

UNITS = 16.0
# Up to this exponent E, exp(E) - 1 <= E + E^2 is as good as the exponential, and cheaper.
SMALL_EXPONENT = 0.01
# Above this one, the growth of a share y is worked out from log y, which does not underflow as y does.
LARGEST_EXPONENT = 50.0


def logit_error(arithmetic: Arithmetic, value: Tensor, error: Tensor | None, finite: bool = False) -> Tensor:
    """E = e + 2u|x|, 0 for infinite logits (masks), which carry none. A new tensor.

    Args:
        finite: whether all logits are known to be.
    """
    size, more = size_of(value), 2.0 * arithmetic.unit_roundoff
    if not finite and size.numel() and not bool(size.max() < torch.inf):
        size = size.nan_to_num(nan=0.0, posinf=0.0)
    out = None if is_shared(value) else size
    return torch.mul(size, more, out=out) if error is None else torch.add(error, size, alpha=more, out=out)


@rule("_softmax", "_safe_softmax")
def softmax(call: Call) -> Any:
    """(y + d) u (g(n) + 16) + d + 2 omega, where d = y (exp(E_i + L) - 1) and L = log(sum_j y_j exp(E_j)).

    L bounds what the denominator may be off; to first order it is the sum_j y_j E_j of ORACLE.md, which falls
    short for wide logits of little share. A row with an unknown logit is unknown.
    """
    x, error = to_operand(call.args[0])
    y = call.func(x, *call.args[1:], **call.kwargs)
    if y.numel() == 0:
        return call.make(y)
    mark_positive(y)
    dims = reduced_dims(x, call.args[1])
    own = call.arithmetic.sum_share(count(x, dims)) + call.arithmetic.unit_roundoff * UNITS
    known = extent_of(x, error)
    widest = None if known is None else largest_logit_error(call.arithmetic, known)

    def bound_of(x: Tensor, error: Tensor | None, y: Tensor) -> Tensor:
        return _softmax_error(call.arithmetic, x, error, y, dims, own, widest)

    bound = in_pieces(bound_of, y, dims, x, error, y)
    if call.name == "_safe_softmax" and call.evaluation.infinite_input:
        bound = torch.where(_may_be_undefined(x, dims), torch.inf, bound)
    elif known is not None:  # shares and their bounds are at most 1, but for what may be flushed
        mark(y, bound, Extent(2.0 + 4.0 * call.arithmetic.underflow, 1.0 + 4.0 * call.arithmetic.underflow))
    return call.make(y, bound)


def largest_logit_error(arithmetic: Arithmetic, extent: Extent) -> float:
    """No E exceeds this."""
    return (extent.error + 2.0 * arithmetic.unit_roundoff * extent.reach) * (1.0 + 2.0**-40)


def _may_be_undefined(x: Tensor, dims: list[int]) -> Tensor:
    """Rows of nothing but -inf, the reduced dim kept: 0 by contract if masks removed every element.

    Where infinite inputs may have made them, exp(-inf - -inf) is NaN in a plain softmax, and either is
    legitimate (ORACLE.md section 3 rule 3).
    """
    lowest = x == -torch.inf
    return lowest.all(dims[0], keepdim=True) if dims else lowest


def _softmax_error(
    arithmetic: Arithmetic,
    x: Tensor,
    error: Tensor | None,
    y: Tensor,
    dims: list[int],
    own: float,
    widest: float | None,
) -> Tensor:
    """The bound for finite logits in a few passes: exp(E_i + L) - 1 <= (1 + 4w) (E_i + sum_j y_j E_j).

    w, at most 1/200, is the largest E. By exp(t) - 1 <= t (1 + t) for t <= 1, exp(E) - 1 <= E (1 + w), whose
    mean is at least L, so that E_i + L <= (1 + w) (E_i + sum_j y_j E_j) =: T <= 2w (1 + w), and (1 + T) (1 + w)
    is below 1 + 4w.
    """
    scale, out = 1.0, None
    if error is None and widest is not None and widest <= SMALL_EXPONENT / 2.0:
        spread, scale = size_of(x), 2.0 * arithmetic.unit_roundoff  # E = 2u|x|
    else:
        spread = out = logit_error(arithmetic, x, error, finite=widest is not None)
    if widest is None or widest > SMALL_EXPONENT / 2.0:
        largest = float(spread.amax())
        if not largest <= SMALL_EXPONENT / 2.0:  # NaN is not
            return _wide_softmax_error(arithmetic, x, spread, y, dims, own)
        widest, finite = largest, False
    else:
        finite = True
    mean = (y * spread).sum(dims, keepdim=True)
    total = torch.add(spread, mean, out=out)
    factor = torch.add(scalar(own), total, alpha=scale * (1.0 + 4.0 * widest) * (1.0 + own), out=total)
    bound = torch.addcmul(number_tensor(2.0 * arithmetic.underflow, y.device), factor, y, out=factor)
    if not finite and not bool(bound.amax() < torch.inf):  # a row with NaN, or with nothing but masks
        bound.nan_to_num_(nan=0.0)
    return bound if own < 0.5 else bound.clamp_(max=1.0)


def _wide_softmax_error(
    arithmetic: Arithmetic, x: Tensor, spread: Tensor, y: Tensor, dims: list[int], own: float
) -> Tensor:
    """For exponents of any size, unknown logits and NaN.

    Shares sum to 1: what the largest loses others gain, and what it gains they lose. So it is off by no more
    than the sum of max(d_j, y_j) over the others, next to nothing where it leads by more than the errors,
    however large these are.
    """
    unknown = ~spread.isfinite()
    if dims:
        unknown = unknown.any(dims[0], keepdim=True)
    spread.nan_to_num_(nan=0.0, posinf=0.0)
    log_sum = torch.logsumexp(x, dims, keepdim=True) if dims else x
    off = (torch.logsumexp(x + spread, dims, keepdim=True) if dims else x + spread) - log_sum
    exponent = spread + off
    bound = exponent.clamp(max=LARGEST_EXPONENT).expm1_().mul_(1.0 + own).add_(own).mul_(y)
    grown = (x - log_sum).add_(exponent).clamp_(max=0.0).exp_()
    bound = torch.where(exponent > LARGEST_EXPONENT, torch.maximum(grown * (1.0 + own), y), bound)
    if dims:
        largest = y.argmax(dims[0], keepdim=True)
        others = torch.maximum(bound, y).nan_to_num_(nan=0.0).scatter_(dims[0], largest, 0.0)
        held = others.sum(dims[0], keepdim=True) * (1.0 + own) + y.gather(dims[0], largest) * own
        bound.scatter_(dims[0], largest, torch.minimum(bound.gather(dims[0], largest), held))
    bound.add_(2.0 * arithmetic.underflow).clamp_(max=1.0).nan_to_num_(nan=0.0)
    return torch.where(unknown, torch.inf, bound)


@rule("_log_softmax")
def log_softmax(call: Call) -> Any:
    """E_i + log(sum_j y_j exp(E_j)) + u (g(n) + 16 + |lse| + |v|)."""
    x, error = to_operand(call.args[0])
    value = call.func(x, *call.args[1:], **call.kwargs)
    if value.numel() == 0:
        return call.make(value)
    dims = reduced_dims(x, call.args[1])
    log_sum = torch.logsumexp(x, dims, keepdim=True) if dims else x
    extent = _extent_of_logarithm(call.arithmetic, x, error, dims)

    def bound_of(x: Tensor, error: Tensor | None, value: Tensor, log_sum: Tensor) -> Tensor:
        spread = logit_error(call.arithmetic, x, error, extent is not None)
        row_error = _log_sum_error(call.arithmetic, x, value.exp(), spread, dims, log_sum, extent is not None)
        bound = (spread + row_error).add_(value.abs(), alpha=call.arithmetic.unit_roundoff)
        if extent is not None:
            return bound
        return _settle(call.arithmetic, value, bound, (spread == torch.inf) | (row_error == torch.inf))

    bound = in_pieces(bound_of, value, dims, x, error, value, log_sum)
    mark(value, bound, extent)
    return call.make(value, bound)


def _extent_of_logarithm(
    arithmetic: Arithmetic, x: Tensor, error: Tensor | None, dims: list[int]
) -> Extent | None:
    """The extent of logarithms of shares and of their sum; None for wide intervals or beyond the range.

    |log y_i| <= 2 max |x| + log n, and the errors are at most 2E + u (g(n) + 16 + |log-sum-exp| + |log y|).
    """
    known = extent_of(x, error)
    widest = 1.0 if known is None else largest_logit_error(arithmetic, known)
    if known is None or widest > SMALL_EXPONENT:
        return None
    terms = count(x, dims)
    reach = 2.0 * known.reach + math.log(max(terms, 1))
    own = arithmetic.sum_share(terms) + UNITS * arithmetic.unit_roundoff
    off = (2.0 * widest + own + 2.0 * arithmetic.unit_roundoff * reach) * 1.01
    return Extent((reach + off) * (1.0 + 2.0**-40), off) if reach + off <= arithmetic.overflow else None


@rule("logsumexp")
def log_sum_exp(call: Call) -> Any:
    """log(sum_j y_j exp(E_j)) + u (g(n) + 16 + |lse|)."""
    x, error = to_operand(call.args[0])
    result = call.func(x, *call.args[1:], **call.kwargs)
    if x.numel() == 0:
        return call.make(result)
    dims = reduced_dims(x, call.args[1])
    log_sum = torch.logsumexp(x, dims, keepdim=True) if dims else x
    extent = _extent_of_logarithm(call.arithmetic, x, error, dims)

    def bound_of(x: Tensor, error: Tensor | None, log_sum: Tensor) -> Tensor:
        spread = logit_error(call.arithmetic, x, error, extent is not None)
        share = (x - log_sum).exp_()
        bound = _log_sum_error(call.arithmetic, x, share, spread, dims, log_sum, extent is not None)
        return bound if extent is not None else _settle(call.arithmetic, log_sum, bound, bound == torch.inf)

    bound = in_pieces(bound_of, x, dims, x, error, log_sum).reshape(result.shape)
    mark(result, bound, extent)
    return call.make(result, bound)


def _log_sum_error(
    arithmetic: Arithmetic,
    x: Tensor,
    share: Tensor,
    spread: Tensor,
    dims: list[int],
    log_sum: Tensor,
    narrow: bool = False,
) -> Tensor:
    """The error of a log-sum-exp over `dims`, which are kept; inf in a row with an unknown logit.

    Args:
        narrow: whether no logit's error is known to exceed `SMALL_EXPONENT`.
    """
    if narrow:  # exp(E) - 1 <= E + 0.502 E^2 for E <= 0.01
        error = torch.addcmul(spread, spread, spread, value=0.502).mul_(share).sum(dims, keepdim=True).log1p_()
    elif is_within(spread, LARGEST_EXPONENT):
        error = spread.expm1().mul_(share).sum(dims, keepdim=True).log1p_()
    else:
        error = torch.logsumexp(x + spread, dims, keepdim=True) - log_sum
    own = arithmetic.sum_share(count(spread, dims)) + UNITS * arithmetic.unit_roundoff
    error.add_(log_sum.abs(), alpha=arithmetic.unit_roundoff).add_(own)
    if narrow or bool(spread.amax() < torch.inf):
        return error
    unknown = ~spread.isfinite()
    for dim in dims:
        unknown = unknown.any(dim, keepdim=True)
    return torch.where(unknown, torch.inf, error)


def _settle(arithmetic: Arithmetic, value: Tensor, bound: Tensor, unknown: Tensor) -> Tensor:
    """Infinite logarithms (masked entries) carry no error; those of unknown rows, or too large, are unknown."""
    if is_settled(arithmetic, value, bound):
        return bound
    unknown = unknown | (value.isfinite() & ~(value.abs() + bound <= arithmetic.overflow))
    return torch.where(unknown, torch.inf, torch.where(value.isfinite(), bound, 0.0))
