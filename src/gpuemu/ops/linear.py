"""Matrix products."""

from __future__ import annotations

import torch

from gpuemu.model.op import Dim, Op, Tensor


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The matrix product `a: M K` times `b: K N`."""
    return torch.matmul(a, b)


def matmul_fp8(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product of 8-bit floats `a: M K` and `b: N K` both with rows along K, without scales."""
    return torch.matmul(a.float(), b.float().T)


OPS = (
    Op(
        "matmul",
        inputs={"a": "M K", "b": "K N"},
        dims={"M": Dim(1, 4096), "K": Dim(1, 4096), "N": Dim(1, 4096)},
        reference=matmul,
        doc="a b",
    ),
    Op(
        "matmul_fp8",
        inputs={"a": Tensor("M K", dtype="float8_e4m3fn"), "b": Tensor("N K", dtype="float8_e4m3fn")},
        dims={"M": Dim(1, 4096), "K": Dim(1, 4096), "N": Dim(1, 4096)},
        dtypes=["bfloat16"],
        reference=matmul_fp8,
        doc="a b^T of 8-bit floats, stored in bfloat16",
    ),
)
