"""Cross-entropy against its definition."""

from __future__ import annotations

import math

import pytest
import torch

from gpuemu.ops.registry import get_op

LOGITS = torch.tensor([[0.5, -1.0, 2.0], [1e3, 1e3 - 1, -1e3], [0.0, 0.0, 0.0]], dtype=torch.float64)
TARGET = torch.tensor([2, 1, -100])


@pytest.mark.parametrize("smoothing", [0.0, 0.125])
def test_cross_entropy_is_its_definition(smoothing: float) -> None:
    rows = []
    for row, target in zip(LOGITS.tolist(), TARGET.tolist(), strict=True):
        peak = max(row)
        total = peak + math.log(math.fsum(math.exp(v - peak) for v in row))
        weights = [(1 - smoothing) * (i == target) + smoothing / len(row) for i in range(len(row))]
        rows.append(
            0.0 if target == -100 else math.fsum(w * (total - v) for w, v in zip(weights, row, strict=True))
        )
    op = get_op("cross_entropy")
    expected = {"none": rows, "sum": math.fsum(rows), "mean": math.fsum(rows) / 2}
    for reduction in op.params["reduction"]:
        actual = op.reference(LOGITS, TARGET, ignore_index=-100, reduction=reduction, label_smoothing=smoothing)
        torch.testing.assert_close(
            actual, torch.tensor(expected[reduction], dtype=torch.float64), rtol=1e-12, atol=1e-12
        )
