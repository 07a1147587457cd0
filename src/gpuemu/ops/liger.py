"""Ops as liger-kernel 0.8 documents them: parameters in the order of each Function's `forward`.

The references are ours, written from the package's docstrings; the contracts state what its casts imply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch.nn import functional

from gpuemu.model.op import Contract, Dim, Op
from gpuemu.ops import activations, losses, normalisation
from gpuemu.ops.contracts import eager_contract
from gpuemu.ops.embedding import HEAD_DIMS, rotate, table

EPS = [1e-6, 1e-5]
LLAMA = "casting mode llama, as documented: the normalised x is cast to x's dtype, then times w in that dtype"
NONE = "casting mode none, as documented: everything is computed in x's dtype"
GATED = "as in the eager code it replaces, the activation is cast to the dtype of b before `* b`"
ROPE = "the Hugging Face formula, whose products and differences are taken in the dtype of cos and sin"
PER_TOKEN = "each token's loss is kept in the dtype of the logits, then summed, as in eager torch"


def rms_norm(
    x: torch.Tensor,
    w: torch.Tensor,
    eps: float,
    offset: float,
    casting_mode: str,  # noqa: ARG001 - which casts are permitted is the profile's affair
) -> torch.Tensor:
    """x / sqrt(mean(x^2) + eps) times (offset + w)."""
    return functional.rms_norm(x, x.shape[-1:], offset + w, eps)


def fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, w: torch.Tensor, eps: float, offset: float, casting_mode: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """RMS norm of the sum, and the sum."""
    total = x + residual
    return rms_norm(total, w, eps, offset, casting_mode), total


def swiglu(a: torch.Tensor, b: torch.Tensor, gate_multiplier: float, down_multiplier: float) -> torch.Tensor:
    """silu(gate_multiplier a) b down_multiplier."""
    return functional.silu(a * gate_multiplier) * b * down_multiplier


def cross_entropy(
    logits: torch.Tensor,
    target: torch.Tensor,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
    lse_square_scale: float,
    softcap: float | None,
) -> torch.Tensor:
    """Cross-entropy of softcap tanh(x / softcap), plus lse_square_scale logsumexp(x)^2 per counted row.

    The second term is the z-loss of Chowdhery et al., arXiv 2204.02311, section 5.
    """
    if softcap is not None:
        logits = softcap * torch.tanh(logits / softcap)
    loss = losses.cross_entropy(logits, target, ignore_index, "none", label_smoothing)
    counted = target != ignore_index
    loss = loss + torch.where(counted, lse_square_scale * logits.logsumexp(dim=-1).square(), 0.0)
    if reduction == "none":
        return loss
    return loss.sum() / counted.sum() if reduction == "mean" else loss.sum()


def cross_entropy_gradient(
    logits: torch.Tensor,
    target: torch.Tensor,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
    lse_square_scale: float,
    softcap: float | None,
) -> torch.Tensor:
    """The derivative of the reduced `cross_entropy` by its logits.

    With x the (capped) logits, L their logsumexp, p their softmax, e the smoothing and q the target's smoothed
    distribution (1 - e) [v = target] + e / V: p (1 + 2 lse_square_scale L) - q, times 1 - tanh^2 for the cap.
    """
    x, slope = logits, None
    if softcap is not None:
        tanh = torch.tanh(logits / softcap)
        x, slope = softcap * tanh, 1.0 - tanh.square()
    counted = target != ignore_index
    chosen = functional.one_hot(torch.where(counted, target, 0), x.shape[-1]).to(x.dtype)
    smoothed = (1.0 - label_smoothing) * chosen + label_smoothing / x.shape[-1]
    scale = 1.0 + 2.0 * lse_square_scale * x.logsumexp(dim=-1, keepdim=True)
    gradient = functional.softmax(x, dim=-1) * scale - smoothed
    if slope is not None:
        gradient = gradient * slope
    gradient = torch.where(counted.unsqueeze(-1), gradient, 0.0)
    return gradient / counted.sum() if reduction == "mean" else gradient


def rope(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The first R elements of every head turned, the others kept (partial RoPE).

    cos, sin: S R with equal halves by convention, so that the left half says everything.
    """
    width = cos.shape[-1]
    cos, sin = cos[..., : width // 2], sin[..., : width // 2]
    turned = (torch.cat((rotate(x[..., :width], cos, sin), x[..., width:]), dim=-1) for x in (q, k))
    return next(turned), next(turned)


def _rms_norm(name: str, offsets: Sequence[float], casting_mode: str, contract: Contract) -> Op:
    return Op(
        name,
        inputs={"x": "B S H", "w": "H"},
        dims=normalisation.ROW_DIMS,
        params={"eps": EPS, "offset": list(offsets), "casting_mode": [casting_mode]},
        reference=rms_norm,
        contract=contract,
        doc=f"(offset + w) x / sqrt(mean(x^2) + eps) over H, casting mode {casting_mode}",
    )


CROSS_ENTROPY = Op(
    "liger.cross_entropy",
    inputs=losses.CLASS_INPUTS,
    dims=losses.CLASS_DIMS,
    params={
        "ignore_index": [losses.IGNORE_INDEX],
        "reduction": ["mean", "sum", "none"],
        "label_smoothing": [0.0, 0.125],
        "lse_square_scale": [0.0, 2.0**-10],
        "softcap": [None, 32.0],
    },
    reference=cross_entropy,
    contract=eager_contract(PER_TOKEN, mutates=("logits",)),
    doc="cross-entropy with label smoothing, z-loss and soft cap; the logits' memory may be overwritten",
)

OPS = (
    _rms_norm("liger.rms_norm", [0.0], "llama", eager_contract(LLAMA)),
    _rms_norm("liger.rms_norm_gemma", [1.0, 0.0], "gemma", Contract()),
    _rms_norm("liger.rms_norm_none", [0.0], "none", eager_contract(NONE)),
    Op(
        "liger.fused_add_rms_norm",
        inputs={"x": "B S H", "residual": "B S H", "w": "H"},
        dims=normalisation.ROW_DIMS,
        params={"eps": EPS, "offset": [0.0], "casting_mode": ["llama"]},
        reference=fused_add_rms_norm,
        contract=eager_contract("the sum is taken in x's dtype; " + LLAMA),
        doc="rms_norm(x + residual) and x + residual, casting mode llama",
    ),
    Op(
        "liger.layer_norm",
        inputs={"x": "B S H", "w": "H", "b": "H"},
        dims=normalisation.ROW_DIMS,
        params={"eps": EPS},
        reference=normalisation.layer_norm,
        doc="w (x - mean) / sqrt(var + eps) + b over H, all in float32",
    ),
    Op(
        "liger.softmax",
        inputs={"x": "B S H"},
        dims=normalisation.ROW_DIMS,
        reference=normalisation.softmax,
        doc="exp(x) / sum(exp(x)) over H",
    ),
    Op(
        "liger.swiglu",
        inputs={"a": "B S H", "b": "B S H"},
        dims=activations.ELEMENT_DIMS,
        params={"gate_multiplier": [1.0, 0.5], "down_multiplier": [1.0]},
        reference=swiglu,
        contract=eager_contract(GATED),
        doc="silu(gate_multiplier a) b down_multiplier",
    ),
    Op(
        "liger.geglu",
        inputs={"a": "B S H", "b": "B S H"},
        dims=activations.ELEMENT_DIMS,
        reference=activations.geglu,
        contract=eager_contract(GATED),
        doc="gelu(a) b, GELU in the tanh form",
    ),
    CROSS_ENTROPY,
    replace(
        CROSS_ENTROPY,
        name="liger.cross_entropy_inference",
        contract=eager_contract(PER_TOKEN),
        doc="the same without gradients, for which the package's comments overwrite the logits: they are kept",
    ),
    replace(
        CROSS_ENTROPY,
        name="liger.cross_entropy_gradient",
        params={**CROSS_ENTROPY.params, "reduction": ["mean", "sum"]},
        reference=cross_entropy_gradient,
        contract=Contract(mutates=("logits",)),
        doc="the derivative of liger.cross_entropy by the logits, in float32, into the logits' memory",
    ),
    Op(
        "liger.rope",
        inputs={"q": "B Q S D", "k": "B K S D", "cos": table("S R"), "sin": table("S R")},
        dims={**HEAD_DIMS, "D": Dim(2, 256, multiple_of=2), "R": Dim(2, 256, multiple_of=2)},
        constraints=["R <= D"],
        reference=rope,
        contract=eager_contract(ROPE, mutates=("q", "k")),
        doc="the first R of the D elements of every head of q and k turned by position",
    ),
)
