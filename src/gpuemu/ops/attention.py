"""Attention of one head: `q: M D`, `k: N D`, `v: N D`."""

from __future__ import annotations

import torch
from torch.nn import functional

from gpuemu.model.op import Dim, Op


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Scaled dot-product attention (Vaswani et al., arXiv 1706.03762, equation 1), no mask."""
    scale = q.shape[-1] ** -0.5
    return functional.softmax(q @ k.mT * scale, dim=-1) @ v


def _one_head(name: str, doc: str) -> Op:
    # The head dim of attention kernels is bounded by on-chip memory: 256 as in FlashAttention-2.
    return Op(
        name,
        inputs={"q": "M D", "k": "N D", "v": "N D"},
        dims={"M": Dim(1, 1024), "N": Dim(1, 4096), "D": Dim(1, 256)},
        reference=attention,
        doc=doc,
    )


OPS = (
    _one_head("attention", "softmax(q k^T / sqrt(D)) v"),
    _one_head("flash_attention", "softmax(q k^T / sqrt(D)) v, computed tile by tile of the keys"),
)
