"""Bitwise equality of outputs."""

from __future__ import annotations

import pytest
import torch

from gpuemu.run.guards.repeat import same_bits


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.uint8]
)
def test_equal_tensors_have_the_same_bits(dtype: torch.dtype) -> None:
    x = torch.arange(12).reshape(3, 4).to(dtype)
    assert same_bits(x, x.clone())
    assert same_bits(x.t(), x.t().contiguous())
    assert not same_bits(x, x[:2])


def test_nan_equals_itself_and_signed_zero_differs() -> None:
    nan = torch.tensor([float("nan"), 0.0])
    assert same_bits(nan, nan.clone())
    assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert not same_bits(torch.ones(1), torch.ones(1, dtype=torch.float64))
