"""Ops as conch-triton-kernels 1.3 documents them, under its functions' parameter names.

The references are ours, written from the package's docstrings and comments; the contracts state what its
casts imply.
"""

from __future__ import annotations

import torch

from gpuemu.model.op import Contract, Dim, Op, Tensor
from gpuemu.ops import activations, normalisation
from gpuemu.ops.contracts import eager_contract
from gpuemu.ops.embedding import rotate, table

EPS = [1e-6, 1e-5]
LIKE_VLLM = "for parity with vLLM, as documented: the normalised x is cast to x's dtype, then times weight"
GATED = "for parity with vLLM, as documented: the activation is cast to x's dtype before the product"
ROPE = (
    "the table is cast to the dtype of query, in which products and differences are taken, as in its reference"
)
TOKENS = Dim(1, 8192, batch=True)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """weight x / sqrt(mean(x^2) + epsilon)."""
    return normalisation.rms_norm(x, weight, epsilon)


def fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, epsilon: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """RMS norm of the sum, and the sum."""
    total = x + residual
    return normalisation.rms_norm(total, weight, epsilon), total


def gemma_rms_norm(x: torch.Tensor, weight: torch.Tensor, variance_epsilon: float) -> torch.Tensor:
    """(1 + weight) x / sqrt(mean(x^2) + variance_epsilon)."""
    return normalisation.rms_norm(x, 1.0 + weight, variance_epsilon)


def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    """silu of the first half of the last axis times the second half."""
    return activations.swiglu(*x.chunk(2, dim=-1))


def gelu_tanh_and_mul(x: torch.Tensor) -> torch.Tensor:
    """GELU (tanh form) of the first half of the last axis times the second half."""
    return activations.geglu(*x.chunk(2, dim=-1))


def rotary_embedding(
    positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor, cos_sin_cache: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Every head of `query: T Q*D` and `key: T K*D` turned by row `positions[t]` of `cos_sin_cache: P D`."""
    head_size = cos_sin_cache.shape[-1]
    cos, sin = cos_sin_cache[positions].unsqueeze(1).chunk(2, dim=-1)
    turned = (rotate(x.reshape(x.shape[0], -1, head_size), cos, sin).reshape(x.shape) for x in (query, key))
    return next(turned), next(turned)


OPS = (
    Op(
        "conch.rms_norm",
        inputs={"x": "B S H", "weight": "H"},
        dims=normalisation.ROW_DIMS,
        params={"epsilon": EPS},
        reference=rms_norm,
        contract=eager_contract(LIKE_VLLM),
        doc="weight x / sqrt(mean(x^2) + epsilon) over H",
    ),
    Op(
        "conch.fused_add_rms_norm",
        inputs={"x": "B S H", "residual": "B S H", "weight": "H"},
        dims=normalisation.ROW_DIMS,
        params={"epsilon": EPS},
        reference=fused_add_rms_norm,
        contract=eager_contract("the sum is taken in x's dtype; " + LIKE_VLLM, mutates=("x", "residual")),
        doc="rms_norm(x + residual) into x and x + residual into residual",
    ),
    Op(
        "conch.gemma_rms_norm",
        inputs={"x": "T H", "weight": "H"},
        dims={"T": TOKENS, "H": Dim(1, 16384)},
        params={"variance_epsilon": EPS},
        reference=gemma_rms_norm,
        contract=Contract(mutates=("x",)),
        doc="(1 + weight) x / sqrt(mean(x^2) + variance_epsilon) over H, all in float32, into x",
    ),
    Op(
        "conch.silu_and_mul",
        inputs={"x": "B S 2*H"},
        dims=activations.ELEMENT_DIMS,
        reference=silu_and_mul,
        contract=eager_contract(GATED),
        doc="silu(x[..., :H]) x[..., H:]",
    ),
    Op(
        "conch.gelu_tanh_and_mul",
        inputs={"x": "B S 2*H"},
        dims=activations.ELEMENT_DIMS,
        reference=gelu_tanh_and_mul,
        contract=eager_contract("a port of vLLM's eager-precision product: the activation is cast before it"),
        doc="gelu(x[..., :H]) x[..., H:], GELU in the tanh form",
    ),
    Op(
        "conch.rotary_embedding",
        inputs={
            "positions": Tensor("T", dtype="int64", low=0, high="P"),
            "query": "T Q*D",
            "key": "T K*D",
            "cos_sin_cache": table("P D"),
        },
        # Heads are turned one after another, whatever their number.
        dims={
            "T": TOKENS,
            "P": Dim(1, 4096),
            "Q": Dim(1, 64, batch=True),
            "K": Dim(1, 64, batch=True),
            "D": Dim(2, 256, multiple_of=2),
        },
        reference=rotary_embedding,
        contract=eager_contract(ROPE, mutates=("query", "key")),
        doc="the D elements of every head of query and key turned by their token's position, in place",
    ),
)
