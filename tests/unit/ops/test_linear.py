"""The matrix product's reference against exact integer arithmetic."""

from __future__ import annotations

import torch

from gpuemu.ops.registry import get_op


def test_matmul_is_exact_on_integers() -> None:
    a = [[1, -2, 3], [4, 5, -6]]
    b = [[7, 8], [9, -10], [11, 12]]
    exact = [[sum(a[i][k] * b[k][j] for k in range(3)) for j in range(2)] for i in range(2)]
    operands = (torch.tensor(values, dtype=torch.float64) for values in (a, b))
    assert get_op("matmul").reference(*operands).tolist() == exact


def test_matmul_shares_its_inner_dim() -> None:
    op = get_op("matmul")
    dims = {"M": 2, "K": 33, "N": 15}
    assert (op.shape_of("a", dims), op.shape_of("b", dims)) == ((2, 33), (33, 15))
