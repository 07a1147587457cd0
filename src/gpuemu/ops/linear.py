"""Matrix products."""

from __future__ import annotations

import torch

from gpuemu.model.op import Dim, Op


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The matrix product `a: M K` times `b: K N`."""
    return torch.matmul(a, b)


OPS = (
    Op(
        "matmul",
        inputs={"a": "M K", "b": "K N"},
        dims={"M": Dim(1, 4096), "K": Dim(1, 4096), "N": Dim(1, 4096)},
        reference=matmul,
        doc="a b",
    ),
)
