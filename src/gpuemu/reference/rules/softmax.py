"""Rule 6: softmax, log-softmax and log-sum-exp, any formula (three-pass, online, folded log2 e)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from gpuemu.reference.arithmetic import Arithmetic
from gpuemu.reference.elementwise import to_operand
from gpuemu.reference.registry import rule
from gpuemu.reference.rules.reduction import argument, count, reduced_dims

if TYPE_CHECKING:
    from gpuemu.reference.dispatch import Evaluation

Tensor = torch.Tensor
UNITS = 16.0
# exp of more than this is a bound without content; it also keeps 0 * exp(E) from becoming NaN.
LARGEST_EXPONENT = 50.0


def logit_error(arithmetic: Arithmetic, value: Tensor, error: Tensor | None) -> Tensor:
    """E = e + 2u|x|, 0 for infinite logits (masks), which carry none."""
    size = value.abs()
    if value.numel() and not bool(size.max() < torch.inf):
        size.nan_to_num_(nan=0.0, posinf=0.0)
    size.mul_(2.0 * arithmetic.unit_roundoff)
    return size if error is None else size.add_(error)


@rule("_softmax", "softmax.int", "_safe_softmax")
def softmax(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """y (exp(E_i + sum_j y_j E_j) - 1) + y u (g(n) + 16) + 2 omega; unknown in a row with an unknown logit."""
    arithmetic, dim = evaluation.arithmetic, args[1]
    x, error = to_operand(args[0])
    y = func(x, *args[1:], **kwargs)
    if y.numel() == 0:
        return evaluation.make(y)
    terms = x.shape[dim] if x.dim() else 1
    spread = logit_error(arithmetic, x, error)
    mean_spread = (y * spread).sum(dim, keepdim=True)
    unknown = None
    if not bool(mean_spread.max() < torch.inf):  # NaN compares false
        unknown = (~spread.isfinite()).any(dim, keepdim=True)
        spread = spread.nan_to_num_(nan=0.0, posinf=0.0)
        mean_spread = (y.nan_to_num(nan=0.0) * spread).sum(dim, keepdim=True)
    bound = spread.add_(mean_spread).clamp_(max=LARGEST_EXPONENT).expm1_()
    bound.add_(arithmetic.unit_roundoff * (arithmetic.growth(terms) + UNITS)).mul_(y)
    bound.add_(2.0 * arithmetic.underflow).clamp_(max=1.0)
    if unknown is not None:
        bound = torch.where(unknown, torch.inf, bound.nan_to_num_(nan=0.0))
    return evaluation.make(y, bound)


@rule("_log_softmax", "log_softmax.int")
def log_softmax(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """E_i + log(sum_j y_j exp(E_j)) + u (g(n) + 16 + |lse| + |v|)."""
    dim = args[1]
    x, error = to_operand(args[0])
    value = func(x, *args[1:], **kwargs)
    if value.numel() == 0:
        return evaluation.make(value)
    spread = logit_error(evaluation.arithmetic, x, error)
    log_sum = torch.logsumexp(x, dim, keepdim=True)
    log_sum_error = _log_sum_exp_error(evaluation.arithmetic, value.exp(), spread, [dim], log_sum)
    bound = (spread + log_sum_error).add_(value.abs(), alpha=evaluation.arithmetic.unit_roundoff)
    return evaluation.make(value, _settle_logarithm(evaluation.arithmetic, value, bound, spread, log_sum_error))


@rule("logsumexp")
def log_sum_exp(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """log(sum_j y_j exp(E_j)) + u (g(n) + 16 + |lse|)."""
    x, error = to_operand(args[0])
    dims = reduced_dims(x, args[1])
    keepdim = argument(args, kwargs, 2, "keepdim", False)
    value = torch.logsumexp(x, dims, keepdim=True)
    if x.numel() == 0:
        return evaluation.make(func(x, *args[1:], **kwargs))
    spread = logit_error(evaluation.arithmetic, x, error)
    share = (x - value).exp_()
    bound = _log_sum_exp_error(evaluation.arithmetic, share, spread, dims, value)
    bound = _settle_logarithm(evaluation.arithmetic, value, bound, bound, bound)
    result = func(x, *args[1:], **kwargs)
    return evaluation.make(result, bound if keepdim else bound.reshape(result.shape))


def _log_sum_exp_error(
    arithmetic: Arithmetic, share: Tensor, spread: Tensor, dims: list[int], log_sum: Tensor
) -> Tensor:
    """The error of a log-sum-exp over `dims`, kept as dims of size 1; inf or NaN where a logit is unknown."""
    growth = spread.clamp(max=LARGEST_EXPONENT).expm1_().mul_(share)
    unknown = (~spread.isfinite()).any(dims, keepdim=True) if not bool(spread.max() < torch.inf) else None
    error = growth.sum(dims, keepdim=True).log1p_()
    terms = count(spread, dims)
    error.add_(log_sum.abs() + (arithmetic.growth(terms) + UNITS), alpha=arithmetic.unit_roundoff)
    return error if unknown is None else torch.where(unknown, torch.inf, error)


def _settle_logarithm(
    arithmetic: Arithmetic, value: Tensor, bound: Tensor, spread: Tensor, log_sum_error: Tensor
) -> Tensor:
    """Infinite logarithms (masked entries) carry no error; entries of an unknown row are unknown."""
    if bool(bound.max() <= arithmetic.overflow):
        return bound
    unknown = (spread == torch.inf) | (log_sum_error == torch.inf)
    return torch.where(unknown, torch.inf, torch.where(value.isfinite(), bound, 0.0))
