"""Normalisations over the last dim of `x: B S H`, without weights and with them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

from gpuemu.model.op import Dim, Op

LAYERNORM_EPS = 1e-5
RMSNORM_EPS = 1e-5
L2NORM_EPS = 1e-12
ROW_DIMS = {"B": Dim(1, 64, batch=True), "S": Dim(1, 4096, batch=True), "H": Dim(1, 16384)}


def _row_wise(name: str, reference: Callable[[torch.Tensor], torch.Tensor], doc: str) -> Op:
    return Op(name, inputs={"x": "B S H"}, dims=ROW_DIMS, reference=reference, doc=doc)


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


def rms_norm(x: torch.Tensor, w: torch.Tensor, eps: float) -> torch.Tensor:
    """RMS norm (arXiv 1910.07467, equation 4) times a weight per column."""
    return functional.rms_norm(x, x.shape[-1:], w, eps)


def layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, eps: float) -> torch.Tensor:
    """Layer norm (arXiv 1607.06450) times a weight per column, plus a bias per column."""
    return functional.layer_norm(x, x.shape[-1:], w, b, eps)


OPS = (
    _row_wise("softmax", softmax, "exp(x) / sum(exp(x)) over H"),
    _row_wise("layernorm", layernorm, "(x - mean) / sqrt(var + 1e-5) over H"),
    _row_wise("rmsnorm", rmsnorm, "x / sqrt(mean(x^2) + 1e-5) over H"),
    _row_wise("l2norm", l2norm, "x / sqrt(sum(x^2) + 1e-12) over H"),
    Op(
        "rms_norm",
        inputs={"x": "B S H", "w": "H"},
        dims=ROW_DIMS,
        params={"eps": [1e-6, 1e-5]},
        reference=rms_norm,
        doc="w x / sqrt(mean(x^2) + eps) over H",
    ),
    Op(
        "layer_norm",
        inputs={"x": "B S H", "w": "H", "b": "H"},
        dims=ROW_DIMS,
        params={"eps": [1e-6, 1e-5]},
        reference=layer_norm,
        doc="w (x - mean) / sqrt(var + eps) + b over H",
    ),
)
