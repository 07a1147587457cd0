"""The candidates of cost_per_case.py: torch's own ops, as a user's file of kernels would hold them."""

from __future__ import annotations

import torch


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Over the last dim."""
    return torch.softmax(x, -1)


def silu(x: torch.Tensor) -> torch.Tensor:
    """Elementwise."""
    return torch.nn.functional.silu(x)


def layernorm(x: torch.Tensor) -> torch.Tensor:
    """Over the last dim, without weights."""
    return torch.nn.functional.layer_norm(x, x.shape[-1:], eps=1e-5)
