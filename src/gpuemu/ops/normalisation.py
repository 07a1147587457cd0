"""Normalisations over the last dim of `x: B S H`, without weights."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

from gpuemu.model.op import Dim, Op

LAYERNORM_EPS = 1e-5
RMSNORM_EPS = 1e-5
L2NORM_EPS = 1e-12


def _row_wise(name: str, reference: Callable[[torch.Tensor], torch.Tensor], doc: str) -> Op:
    dims = {"B": Dim(1, 64, batch=True), "S": Dim(1, 4096, batch=True), "H": Dim(1, 16384)}
    return Op(name, inputs={"x": "B S H"}, dims=dims, reference=reference, doc=doc)


def softmax(x: torch.Tensor) -> torch.Tensor:
    """exp(x) over its sum along the last dim."""
    return functional.softmax(x, dim=-1)


def layernorm(x: torch.Tensor) -> torch.Tensor:
    """Layer norm without affine parameters (Ba et al., arXiv 1607.06450), population variance."""
    return functional.layer_norm(x, x.shape[-1:], eps=LAYERNORM_EPS)


def rmsnorm(x: torch.Tensor) -> torch.Tensor:
    """RMS norm without weight (Zhang and Sennrich, arXiv 1910.07467, equation 4)."""
    return functional.rms_norm(x, x.shape[-1:], eps=RMSNORM_EPS)


def l2norm(x: torch.Tensor) -> torch.Tensor:
    """Rows scaled to unit length; eps is added to the sum of squares, unlike torch's `normalize`."""
    return x * torch.rsqrt(x.square().sum(dim=-1, keepdim=True) + L2NORM_EPS)


OPS = (
    _row_wise("softmax", softmax, "exp(x) / sum(exp(x)) over H"),
    _row_wise("layernorm", layernorm, "(x - mean) / sqrt(var + 1e-5) over H"),
    _row_wise("rmsnorm", rmsnorm, "x / sqrt(mean(x^2) + 1e-5) over H"),
    _row_wise("l2norm", l2norm, "x / sqrt(sum(x^2) + 1e-12) over H"),
)
