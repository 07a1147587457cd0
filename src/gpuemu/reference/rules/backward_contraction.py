"""Derivatives of convolutions and of fused attention, contractions again; g is the upstream gradient."""

from __future__ import annotations

import math
from typing import Any

import torch

from gpuemu.reference.contraction import contract
from gpuemu.reference.registry import Call, rule
from gpuemu.reference.rules.attention import check_dropout, mask_scores
from gpuemu.reference.rules.backward_rows import difference_from_total

Tensor = torch.Tensor


@rule("convolution_backward")
def convolution(call: Call) -> Any:
    """By input, weight and bias: each bilinear in g and the other operand."""
    g, x, weight, bias_sizes, *options, mask = call.args
    transposed = options[3]
    g, x, weight = (call.follow(argument) for argument in (g, x, weight))
    kernel = math.prod(weight.shape[2:])
    channels = weight.shape[1] if transposed else weight.shape[0] // options[5]
    places = x.shape[0] * math.prod((x if transposed else g).shape[2:])

    def by_input(a: Tensor, b: Tensor) -> Tensor:
        like = torch.empty(x.shape, dtype=a.dtype, device=a.device)
        result: Tensor = call.func(a, like, b, bias_sizes, *options, [True, False, False])[0]
        return result

    def by_weight(a: Tensor, b: Tensor) -> Tensor:
        like = torch.empty(weight.shape, dtype=a.dtype, device=a.device)
        result: Tensor = call.func(a, b, like, bias_sizes, *options, [False, True, False])[1]
        return result

    evaluation = call.evaluation
    return (
        contract(evaluation, by_input, g, weight, channels * kernel) if mask[0] else None,
        contract(evaluation, by_weight, g, x, places) if mask[1] else None,
        g.sum([0, *range(2, g.dim())]) if mask[2] else None,
    )


def attend_backward(
    call: Call, operands: tuple[Any, ...], mask: Any, is_causal: bool, scale: float | None
) -> tuple[Any, Any, Any, Any]:
    """By query, key, value and the scores; with P = softmax(S), dP = g v^T and dS = P (dP - D):

    dv = P^T g, dq = dS k scale, dk = dS^T q scale. D is sum(P dP) or, as in FlashAttention (Dao et al.,
    arXiv 2205.14135, algorithm 4), sum(g o) with the output o as it was stored; either is legitimate.

    Args:
        operands: g, query, key, value and o.
    """
    g, query, key, value, output = (call.follow(argument) for argument in operands)
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = mask_scores(query @ key.transpose(-2, -1) * scale, mask, is_causal)
    shares = torch.ops.aten._safe_softmax(scores, -1)
    by_shares = g @ value.transpose(-2, -1)
    total = (shares * by_shares).sum(-1, keepdim=True)
    other = (g * call.evaluation.as_stored(output)).sum(-1, keepdim=True)
    if total.error is not None and other.error is not None:
        total = call.make(total.value, torch.maximum(total.error, other.error))
    by_scores = difference_from_total(call, shares, by_shares, total)
    by_query = by_scores @ key * scale
    by_key = by_scores.transpose(-2, -1) @ query * scale
    return by_query, by_key, shares.transpose(-2, -1) @ g, by_scores


@rule("_scaled_dot_product_flash_attention_for_cpu_backward")
def flash_attention_on_cpu(call: Call) -> Any:
    """(g, q, k, v, o, lse, dropout_p, is_causal)."""
    check_dropout(call.args[6])
    mask, scale = call.kwargs.get("attn_mask"), call.kwargs.get("scale")
    return attend_backward(call, call.args[:5], mask, call.args[7], scale)[:3]


@rule("_scaled_dot_product_flash_attention_backward")
def flash_attention(call: Call) -> Any:
    """(g, q, k, v, o, lse, four of lengths, dropout_p, is_causal, two of the generator)."""
    check_dropout(call.args[10])
    return attend_backward(call, call.args[:5], None, call.args[11], call.kwargs.get("scale"))[:3]


@rule("_scaled_dot_product_efficient_attention_backward")
def efficient_attention(call: Call) -> Any:
    """(g, q, k, v, bias, o, lse, two of the generator, dropout_p, which gradients, is_causal)."""
    bias, output, wanted = call.args[4], call.args[5], call.args[10]
    check_dropout(call.args[9])
    is_causal = call.argument(11, "is_causal", False)
    *others, by_scores = attend_backward(
        call, (*call.args[:4], output), bias, is_causal, call.kwargs.get("scale")
    )
    by_bias = by_scores.sum_to_size(bias.shape) if wanted[3] and bias is not None else None
    return *others, by_bias
