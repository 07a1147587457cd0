"""Rule 6: sums, means, extremes and what is made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from gpuemu.reference.arithmetic import Arithmetic
from gpuemu.reference.bounded import Bounded
from gpuemu.reference.elementwise import Loss, elementwise, is_settled, to_operand
from gpuemu.reference.lowest_bit import lowest_bit, may_share_lowest_bit
from gpuemu.reference.registry import rule

if TYPE_CHECKING:
    from gpuemu.reference.dispatch import Evaluation

Tensor = torch.Tensor


def reduced_dims(x: Tensor, dim: Any) -> list[int]:
    """The dims that are reduced: all of them for None or an empty list."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return list(range(x.dim()))
    return [dim] if isinstance(dim, int) else list(dim)


def count(x: Tensor, dims: Sequence[int]) -> int:
    """How many elements are reduced to one."""
    return math.prod(x.shape[d] for d in dims) if x.dim() else 1


def argument(args: tuple[Any, ...], kwargs: dict[str, Any], position: int, name: str, default: Any) -> Any:
    """An argument given by position or by name."""
    return args[position] if len(args) > position else kwargs.get(name, default)


@rule("sum")
def sum_(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The sum over some dims."""
    dims = reduced_dims(args[0], argument(args, kwargs, 1, "dim", None))
    keepdim = argument(args, kwargs, 2, "keepdim", False)
    value, error = to_operand(args[0])
    if not args[0].is_floating_point() and error is None:
        return func(args[0].value if type(args[0]) is Bounded else args[0], *args[1:], **kwargs)
    total, total_error = accumulate(evaluation.arithmetic, value, error, dims, keepdim)
    return evaluation.make(total, total_error)


def accumulate(
    arithmetic: Arithmetic,
    value: Tensor,
    error: Tensor | None,
    dims: list[int],
    keepdim: bool,
    certified: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """Sum and error: sum e + g(n) u sum |x| + n omega, 0 where the exactness certificate holds if `certified`."""
    total = value.sum(dims, keepdim=keepdim) if dims else value.clone()
    if total.numel() == 0:
        return total, None
    size = value.abs().sum(dims, keepdim=keepdim) if dims else value.abs()
    propagated = None if error is None else (error.sum(dims, keepdim=keepdim) if dims else error)
    terms = count(value, dims)
    limit = -1.0
    if certified and error is None and may_share_lowest_bit(arithmetic, float(size.min()), value):
        finite = value.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        quantum = lowest_bit(finite)
        limit = quantum * 2.0 ** (arithmetic.precision - 1) if quantum >= arithmetic.underflow else -1.0
        if float(size.max()) <= min(limit, arithmetic.overflow):
            return total, None
    # A flush to zero loses no more than there is, so a sum of zeros stays exact.
    flush = (size if propagated is None else size + propagated).clamp(max=arithmetic.underflow).mul_(terms)
    rounding = (size * (arithmetic.growth(terms) * arithmetic.unit_roundoff)).add_(flush)
    if limit >= 0:
        rounding.masked_fill_(size <= limit, 0.0)
    result = rounding if propagated is None else rounding + propagated
    if not is_settled(arithmetic, size, result):
        result = _careful_sum(arithmetic, value, error, dims, keepdim, total, certified)
    return total, result


def _careful_sum(
    arithmetic: Arithmetic,
    value: Tensor,
    error: Tensor | None,
    dims: list[int],
    keepdim: bool,
    total: Tensor,
    certified: bool,
) -> Tensor:
    """As `accumulate`, with non-finite elements: they carry no error, and their sum has none."""

    def summed(x: Tensor) -> Tensor:
        return x.sum(dims, keepdim=keepdim) if dims else x

    finite = value.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    known = torch.zeros_like(value) if error is None else torch.where(error.isfinite(), error, 0.0)
    unknown = torch.zeros_like(total, dtype=torch.bool)
    if error is not None:
        unknown = summed((~error.isfinite()).double()) > 0
    terms, size = count(value, dims), summed(finite.abs())
    rounding = size * (arithmetic.growth(terms) * arithmetic.unit_roundoff)
    rounding += (size + summed(known)).clamp(max=arithmetic.underflow) * terms
    if certified and error is None:
        quantum = lowest_bit(finite)
        if quantum >= arithmetic.underflow:
            rounding = torch.where(size <= quantum * 2.0 ** (arithmetic.precision - 1), 0.0, rounding)
    result = summed(known) + rounding
    overflowed = (size > arithmetic.overflow) | (
        total.isfinite() & (total.abs() + result > arithmetic.overflow)
    )
    return torch.where(unknown | overflowed, torch.inf, torch.where(total.isfinite(), result, 0.0))


@rule("mean")
def mean(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The sum's error over n, plus u |mean|. Never certified: running means are legitimate (rule 8)."""
    dims = reduced_dims(args[0], argument(args, kwargs, 1, "dim", None))
    keepdim = argument(args, kwargs, 2, "keepdim", False)
    value, error = to_operand(args[0])
    result = value.mean(dims, keepdim=keepdim) if dims else value.clone()
    return evaluation.make(result, mean_error(evaluation.arithmetic, value, error, dims, keepdim, result))


def mean_error(
    arithmetic: Arithmetic, value: Tensor, error: Tensor | None, dims: list[int], keepdim: bool, result: Tensor
) -> Tensor:
    """The error of a mean over `dims`; a new tensor of the mean's shape."""
    total, total_error = accumulate(arithmetic, value, error, dims, keepdim, certified=False)
    if total_error is None:  # no elements
        return torch.zeros_like(total)
    share = (total_error / max(count(value, dims), 1)).add_(result.abs(), alpha=arithmetic.unit_roundoff)
    return torch.where(result.isfinite() | (total_error == torch.inf), share, 0.0)


def _shifted(reduce: Any, value: Tensor, error: Tensor, result: Tensor) -> Tensor:
    """Two-sided evaluation of a function that is monotone in every element."""
    up, down = reduce(value + error), reduce(value - error)
    deviation = torch.maximum((up - result).abs(), (down - result).abs())
    return torch.where((up == result) & (down == result), 0.0, deviation).nan_to_num(nan=torch.inf)


@rule("amax", "amin", "max.default", "min.default", "max", "min")
def extreme(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The largest or smallest element; uncertain where an element of its row is unknown."""
    value, error = to_operand(args[0])
    raw = type(args[0]) is Bounded and args[0].raw
    result = func(value, *args[1:], **kwargs)
    if error is None:
        return evaluation.make(result, None, raw)
    return evaluation.make(result, _shifted(lambda x: func(x, *args[1:], **kwargs), value, error, result))


@rule("max.dim", "min.dim")
def extreme_with_index(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The extreme along a dim and where it is; the place is uncertain where another element may be as extreme."""
    x, dim = args[0], args[1]
    keepdim = argument(args, kwargs, 2, "keepdim", False)
    value, error = to_operand(x)
    result, index = func(value, dim, keepdim)
    result_error = None
    if error is not None:
        result_error = _shifted(lambda t: func(t, dim, keepdim)[0], value, error, result)
    sign = 1.0 if func is torch.ops.aten.max.dim else -1.0
    place = _uncertain_place(evaluation, sign * value, error, dim, keepdim, index)
    return evaluation.make(result, result_error, type(x) is Bounded and x.raw), place


@rule("argmax", "argmin")
def place_of_extreme(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Where the extreme is; uncertain where several elements may be it."""
    value, error = to_operand(args[0])
    dim, keepdim = argument(args, kwargs, 1, "dim", None), argument(args, kwargs, 2, "keepdim", False)
    index = func(value, dim, keepdim)
    sign = 1.0 if func is torch.ops.aten.argmax.default else -1.0
    if dim is None:
        flat_error = None if error is None else error.reshape(-1)
        place = _uncertain_place(evaluation, sign * value.reshape(-1), flat_error, 0, False, index.reshape(()))
        return place.reshape(index.shape)
    return _uncertain_place(evaluation, sign * value, error, dim, keepdim, index)


def _uncertain_place(
    evaluation: Evaluation, value: Tensor, error: Tensor | None, dim: int, keepdim: bool, index: Tensor
) -> Tensor:
    """The index of the largest element: plain if there are no rivals, else bounded with error inf."""
    highest, lowest = (value, value) if error is None else (value + error, value - error)
    sure = lowest.amax(dim, keepdim=True)
    rivals = (~(highest < sure)).sum(dim, keepdim=keepdim)
    if not bool((rivals > 1).any()):
        return index
    return evaluation.make(index, torch.where(rivals > 1, torch.inf, 0.0).double())


@rule("cumsum")
def cumulative_sum(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Sums over prefixes: cumsum e + g(n) u cumsum |x| + n omega."""
    arithmetic, dim = evaluation.arithmetic, args[1]
    value, error = to_operand(args[0])
    result = value.cumsum(dim)
    if result.numel() == 0:
        return evaluation.make(result)
    terms = value.shape[dim] if value.dim() else 1
    finite = value.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    size = finite.abs().cumsum(dim)
    total = size * (arithmetic.growth(terms) * arithmetic.unit_roundoff)
    total += size.clamp(max=arithmetic.underflow) * terms
    if error is not None:
        total += error.cumsum(dim)
    elif may_share_lowest_bit(arithmetic, float(size.min()), value):
        quantum = lowest_bit(finite)
        if quantum >= arithmetic.underflow:
            total.masked_fill_(size <= quantum * 2.0 ** (arithmetic.precision - 1), 0.0)
    unknown = ~(size + total <= arithmetic.overflow)
    return evaluation.make(result, torch.where(unknown, torch.inf, torch.where(result.isfinite(), total, 0.0)))


@rule("linalg_vector_norm")
def vector_norm(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Norms of order 1, 2 and infinity, by their definition."""
    x = args[0]
    order = float(argument(args, kwargs, 1, "ord", 2))
    dims = reduced_dims(x, argument(args, kwargs, 2, "dim", None))
    keepdim = argument(args, kwargs, 3, "keepdim", False)
    if order == math.inf:
        return x.abs().amax(dims, keepdim=keepdim)
    if order == 1.0:
        return x.abs().sum(dims, keepdim=keepdim)
    if order == 2.0:
        return _root_of_squares(evaluation, (x * x).sum(dims, keepdim=keepdim))
    return x.abs().pow(order).sum(dims, keepdim=keepdim).pow(1.0 / order)


def _root_of_squares(evaluation: Evaluation, total: Any) -> Bounded:
    """The root of a sum of squares, which no rounding makes negative."""
    return elementwise(evaluation, lambda t: t.clamp(min=0.0).sqrt(), [to_operand(total)], Loss(4.0))


@rule("var.correction", "std.correction", "var_mean.correction", "std_mean.correction")
def variance(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Two passes: the mean of squared deviations, over n - correction; standard deviation is its root."""
    x, name = args[0], func._schema.name.removeprefix("aten::")
    dims = reduced_dims(x, argument(args, kwargs, 1, "dim", None))
    keepdim, correction = kwargs.get("keepdim", False), kwargs.get("correction")
    divisor = count(x, dims) - (1 if correction is None else correction)
    centre = x.mean(dims, keepdim=True)
    deviation = x - centre
    # Not a plain sum: the certificate must not hold for a variance (rule 8).
    spread = (deviation * deviation).mean(dims, keepdim=keepdim) * (
        count(x, dims) / divisor if divisor else math.inf
    )
    result = _root_of_squares(evaluation, spread) if name.startswith("std") else spread
    if not name.endswith("_mean"):
        return result
    return result, centre if keepdim else centre.reshape(result.shape)
