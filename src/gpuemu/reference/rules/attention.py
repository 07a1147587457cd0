"""Fused attention, decomposed into its products and softmax (Vaswani et al., arXiv 1706.03762, equation 1)."""

from __future__ import annotations

import math
from typing import Any

import torch

from gpuemu.reference.errors import UnsupportedReferenceError
from gpuemu.reference.registry import Call, rule


def attend(
    query: Any, key: Any, value: Any, mask: Any = None, is_causal: bool = False, scale: float | None = None
) -> tuple[Any, Any]:
    """softmax(q k^T scale + mask) v and the log-sum-exp of the scores; fully masked rows give 0.

    A row whose scores infinite inputs turned into -inf is not fully masked: its bound is inf.
    Shapes: query (..., Hq, M, D), key (..., Hkv, N, D), value (..., Hkv, N, Dv) with Hkv a divisor of Hq.
    """
    if query.dim() > 3 and key.shape[-3] != query.shape[-3]:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = mask_scores(query @ key.transpose(-2, -1) * scale, mask, is_causal)
    shares = torch.ops.aten._safe_softmax(scores, -1)
    if mask is not None:
        kept = mask if mask.dtype == torch.bool else mask != -math.inf
        if is_causal:
            kept = kept & ~_above_diagonal(scores)
        shares = torch.where(kept.any(-1, keepdim=True), shares, 0.0)
    return shares @ value, torch.logsumexp(scores, -1)


def mask_scores(scores: Any, mask: Any, is_causal: bool) -> Any:
    """-inf above the diagonal and where a bool mask is false; a float mask is added."""
    if is_causal:
        scores = scores.masked_fill(_above_diagonal(scores), -math.inf)
    if mask is None:
        return scores
    return torch.where(mask, scores, -math.inf) if mask.dtype == torch.bool else scores + mask


def _above_diagonal(scores: Any) -> torch.Tensor:
    rows, columns = scores.shape[-2:]
    return torch.ones(rows, columns, dtype=torch.bool, device=scores.device).triu(1)


def check_dropout(probability: float) -> None:
    """Raises: UnsupportedReferenceError for an attention that drops out."""
    if probability:
        raise UnsupportedReferenceError("the reference's attention drops out at random: pass dropout_p=0")


def _attention(call: Call, mask: Any, dropout: float, is_causal: bool) -> tuple[Any, Any]:
    check_dropout(dropout)
    query, key, value = (call.follow(t) for t in call.args[:3])
    return attend(query, key, value, mask, is_causal, call.kwargs.get("scale"))


@rule("_scaled_dot_product_flash_attention_for_cpu")
def flash_attention_on_cpu(call: Call) -> Any:
    """(q, k, v, dropout_p, is_causal): output and log-sum-exp."""
    dropout, is_causal = call.argument(3, "dropout_p", 0.0), call.argument(4, "is_causal", False)
    return _attention(call, call.kwargs.get("attn_mask"), dropout, is_causal)


@rule("_scaled_dot_product_flash_attention")
def flash_attention(call: Call) -> Any:
    """(q, k, v, dropout_p, is_causal): output, log-sum-exp, and seven outputs that only a gradient needs."""
    dropout, is_causal = call.argument(3, "dropout_p", 0.0), call.argument(4, "is_causal", False)
    lengths = call.args[0].shape[-2], call.args[1].shape[-2]
    return *_attention(call, None, dropout, is_causal), None, None, *lengths, None, None, None


@rule("_scaled_dot_product_efficient_attention")
def efficient_attention(call: Call) -> Any:
    """(q, k, v, bias, compute_log_sumexp, dropout_p, is_causal): output, log-sum-exp, two for a gradient."""
    dropout, is_causal = call.argument(5, "dropout_p", 0.0), call.argument(6, "is_causal", False)
    return *_attention(call, call.args[3], dropout, is_causal), None, None
