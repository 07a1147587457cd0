"""Matrix products and attention: controls of several orders, and the usual mistakes."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch.nn import functional

from gpuemu.corpus.population.implementation import (
    Function,
    Implementation,
    coarse,
    control,
    eager,
    mutant,
    truncated,
)

Tensor = torch.Tensor
LOG2_E = 1.4426950408889634
BLOCK = 32
ATTENTION = ("attention", "flash_attention")


# --- matmul --------------------------------------------------------------------------------------------------


def product_in_blocks(a: Tensor, b: Tensor, size: int = BLOCK) -> Tensor:
    """One accumulator over tiles of the inner axis."""
    total = a.new_zeros(a.shape[0], b.shape[1])
    for start in range(0, a.shape[1], size):
        total = total + a[:, start : start + size] @ b[start : start + size]
    return total


def product_split(a: Tensor, b: Tensor) -> Tensor:
    """Split-K: independent parts, added at the end."""
    parts = [a[:, k::3] @ b[k::3] for k in range(3)]
    return parts[2] + parts[1] + parts[0]


def product_backwards(a: Tensor, b: Tensor) -> Tensor:
    return product_in_blocks(a.flip(1), b.flip(0), 16)


def product_overwritten(a: Tensor, b: Tensor) -> Tensor:
    """Only the last tile of the inner axis survives."""
    start = (a.shape[1] - 1) // BLOCK * BLOCK
    return a[:, start:] @ b[start:]


def product_accumulated(dtype: torch.dtype) -> Function:
    """The accumulator is of a narrow dtype, tile by tile."""

    def call(a: Tensor, b: Tensor) -> Tensor:
        total = torch.zeros(a.shape[0], b.shape[1], dtype=dtype, device=a.device)
        for start in range(0, a.shape[1], 16):
            total = total + (a[:, start : start + 16].float() @ b[start : start + 16].float()).to(dtype)
        return total.to(a.dtype)

    return call


def product_operands(dtype: torch.dtype) -> Function:
    return lambda a, b: (a.to(dtype).float() @ b.to(dtype).float()).to(a.dtype)


def product_truncated_operands(a: Tensor, b: Tensor) -> Tensor:
    """tf32: 10 fractional bits of each operand."""
    return (truncated(a.float(), 13) @ truncated(b.float(), 13)).to(a.dtype)


# --- attention -----------------------------------------------------------------------------------------------


def scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT * q.shape[-1] ** -0.5


def attention_naive(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = torch.exp(scores(q, k) - scores(q, k).amax(-1, keepdim=True))
    return (weights @ v) / weights.sum(-1, keepdim=True)


def attention_scaled_query(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return functional.softmax((q * q.shape[-1] ** -0.5) @ k.mT, dim=-1) @ v


def attention_online(
    q: Tensor, k: Tensor, v: Tensor, rescale: bool = True, exp2: bool = False, size: int = BLOCK
) -> Tensor:
    """FlashAttention (Dao et al., arXiv 2205.14135): one pass over tiles of keys."""
    scale = q.shape[-1] ** -0.5 * (LOG2_E if exp2 else 1.0)
    exp = torch.exp2 if exp2 else torch.exp
    largest = q.new_full((q.shape[0], 1), -torch.inf)
    total, result = torch.zeros_like(largest), q.new_zeros(q.shape[0], v.shape[1])
    for start in range(0, k.shape[0], size):
        logits = q @ k[start : start + size].mT * scale
        new = torch.maximum(largest, logits.amax(-1, keepdim=True))
        weights, alpha = exp(logits - new), exp(largest - new)
        total = total * alpha + weights.sum(-1, keepdim=True)
        result = (result * alpha if rescale else result) + weights @ v[start : start + size]
        largest = new
    return result / total


def attention_rounded_weights(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Weights in the storage dtype, as kernels that feed tensor cores round them (profile P1 permits it)."""
    logits = scores(q.float(), k.float())
    weights = torch.exp(logits - logits.amax(-1, keepdim=True))
    total = weights.sum(-1, keepdim=True)
    return (weights.to(q.dtype).float() @ v.float() / total).to(q.dtype)


def attention_dropped_key(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    kept = max(k.shape[0] - 1, 1)
    return attention_naive(q, k[:kept], v[:kept])


def attention_zero_padding(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Padded keys of zeros have logit 0 and join the denominator."""
    pad = -k.shape[0] % BLOCK
    return attention_naive(q, functional.pad(k, (0, 0, 0, pad)), functional.pad(v, (0, 0, 0, pad)))


def attention_padded_scale(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    padded = max(16, 1 << (q.shape[-1] - 1).bit_length())
    return functional.softmax(q @ k.mT * padded**-0.5, dim=-1) @ v


def attention_causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    mask = torch.ones(q.shape[0], k.shape[0], dtype=torch.bool, device=q.device).tril(k.shape[0] - q.shape[0])
    return functional.softmax(scores(q, k).masked_fill(~mask, -torch.inf), dim=-1).nan_to_num(0.0) @ v


def attention_coarse(dtype: torch.dtype) -> Function:
    """Logits and result accumulated tile by tile in a narrow dtype."""

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        logits = product_accumulated(dtype)(q.float(), k.float().mT) * q.shape[-1] ** -0.5
        weights = torch.softmax(logits, dim=-1)
        return product_accumulated(dtype)(weights, v.float()).to(q.dtype)

    return call


def _attention(op: str) -> tuple[Implementation, ...]:
    return (
        eager(op, attention_scaled_query, composed=True, product=True),
        control(op, "naive", attention_naive),
        control(op, "scaled_query", attention_scaled_query),
        control(op, "online", attention_online),
        control(op, "online_exp2", lambda q, k, v: attention_online(q, k, v, exp2=True, size=16)),
        Implementation(op, "rounded_weights", attention_rounded_weights),
        mutant(op, "no_scale", lambda q, k, v: functional.softmax(q @ k.mT, dim=-1) @ v, "S", "no 1/sqrt(D)"),
        mutant(
            op,
            "scale_by_d",
            lambda q, k, v: functional.softmax(q @ k.mT / q.shape[-1], dim=-1) @ v,
            "S",
            "1/D in place of 1/sqrt(D)",
        ),
        mutant(op, "padded_scale", attention_padded_scale, "S", "the scale is of the padded head dim"),
        mutant(op, "zero_padding", attention_zero_padding, "A", "padded keys join the denominator"),
        mutant(
            op,
            "no_rescale",
            lambda q, k, v: attention_online(q, k, v, rescale=False),
            "J",
            "the accumulator is not rescaled when the maximum rises",
        ),
        mutant(
            op,
            "shifted_values",
            lambda q, k, v: attention_naive(q, k, v.roll(1, 0)),
            "L",
            "values are read one row too far",
        ),
        mutant(op, "causal", attention_causal, "K", "a causal mask where none is declared"),
        mutant(op, "dropped_key", attention_dropped_key, "A", "the last key is left out"),
        coarse(op, "bfloat16_sums", attention_coarse(torch.bfloat16), "sums are accumulated in bfloat16"),
        coarse(op, "float16_sums", attention_coarse(torch.float16), "sums are accumulated in float16"),
    )


IMPLEMENTATIONS: tuple[Implementation, ...] = (
    replace(
        eager("matmul", torch.matmul, composed=True, product=True),
        reason="cuBLAS may add the parts of a split sum in 16 bits (allow_bf16_reduced_precision_reduction)",
    ),
    control("matmul", "float32", torch.matmul),
    control("matmul", "blocks", product_in_blocks),
    control("matmul", "split", product_split),
    control("matmul", "backwards", product_backwards),
    control("matmul", "summed", lambda a, b: (a.unsqueeze(2) * b.unsqueeze(0)).sum(1)),
    mutant("matmul", "overwritten", product_overwritten, "J", "the accumulator is overwritten at each tile"),
    mutant(
        "matmul",
        "dropped_inner",
        lambda a, b: a[:, : max(a.shape[1] - 1, 1)] @ b[: max(a.shape[1] - 1, 1)],
        "A",
        "the last term of each sum is left out",
    ),
    mutant("matmul", "shifted", lambda a, b: a @ b.roll(1, 1), "L", "columns are read one too far"),
    mutant(
        "matmul", "doubled_first", lambda a, b: a @ b + a[:, :1] @ b[:1], "E", "the first term is added twice"
    ),
    mutant(
        "matmul",
        "last_row",
        lambda a, b: torch.cat(((a @ b)[:-1], torch.zeros_like((a @ b)[-1:]))),
        "A",
        "the last row is not written",
    ),
    mutant("matmul", "scaled", lambda a, b: (a @ b) * (1.0 + 2.0**-12), "S", "scaled by 1 + 2^-12"),
    coarse("matmul", "float16_sum", product_accumulated(torch.float16), "accumulated in float16"),
    coarse("matmul", "bfloat16_sum", product_accumulated(torch.bfloat16), "accumulated in bfloat16"),
    coarse("matmul", "bfloat16_operands", product_operands(torch.bfloat16), "operands are rounded to bfloat16"),
    coarse("matmul", "tf32_operands", product_truncated_operands, "operands are truncated to tf32"),
    coarse(
        "matmul",
        "truncating_store",
        lambda a, b: truncated(a.float() @ b.float(), 16).to(a.dtype),
        "the result is truncated to 8 bits",
    ),
    *_attention("attention"),
    *_attention("flash_attention"),
)
