"""Fused attention, decomposed into its products and softmax (Vaswani et al., arXiv 1706.03762, equation 1)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from gpuemu.reference.errors import UnsupportedReferenceError
from gpuemu.reference.registry import rule
from gpuemu.reference.rules.normalisation import follow

if TYPE_CHECKING:
    from gpuemu.reference.dispatch import Evaluation


def attend(
    query: Any, key: Any, value: Any, mask: Any = None, is_causal: bool = False, scale: float | None = None
) -> tuple[Any, Any]:
    """softmax(q k^T scale + mask) v and the log-sum-exp of the scores; fully masked rows give 0.

    Shapes: query (..., Hq, M, D), key (..., Hkv, N, D), value (..., Hkv, N, Dv) with Hkv a divisor of Hq.
    """
    if query.dim() > 3 and key.shape[-3] != query.shape[-3]:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query @ key.transpose(-2, -1) * scale
    if is_causal:
        rows, columns = scores.shape[-2:]
        above = torch.ones(rows, columns, dtype=torch.bool, device=query.device).triu(1)
        scores = scores.masked_fill(above, -math.inf)
    if mask is not None:
        scores = torch.where(mask, scores, -math.inf) if mask.dtype == torch.bool else scores + mask
    return torch.ops.aten._safe_softmax(scores, -1) @ value, torch.logsumexp(scores, -1)


def _check_dropout(probability: float) -> None:
    if probability:
        raise UnsupportedReferenceError("the reference's attention drops out at random: pass dropout_p=0")


@rule("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention")
def flash_attention(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """(q, k, v, dropout_p, is_causal): output, log-sum-exp, and the outputs that only a gradient needs."""
    query, key, value, dropout, is_causal = (*args, 0.0, False)[:5] if len(args) < 5 else args[:5]
    _check_dropout(dropout)
    mask = kwargs.get("attn_mask")
    output, log_sum = attend(
        *(follow(evaluation, t) for t in (query, key, value)), mask, is_causal, kwargs.get("scale")
    )
    if func is getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu").default:
        return output, log_sum
    return output, log_sum, None, None, query.shape[-2], key.shape[-2], None, None, None


@rule("_scaled_dot_product_efficient_attention")
def efficient_attention(
    evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """(q, k, v, bias, compute_log_sumexp, dropout_p, is_causal)."""
    query, key, value, mask, _, dropout, is_causal = (*args, 0.0, False)[:7] if len(args) < 7 else args[:7]
    _check_dropout(dropout)
    output, log_sum = attend(
        *(follow(evaluation, t) for t in (query, key, value)), mask, is_causal, kwargs.get("scale")
    )
    return output, log_sum, None, None
