"""The attention references against closed forms and torch's own attention."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from gpuemu.ops.registry import get_op

NAMES = ("attention", "flash_attention")


def draw(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", NAMES)
def test_two_keys_are_weighed_by_the_logistic_of_their_scaled_difference(name: str) -> None:
    q = torch.tensor([[3.0, 1.0, 0.0, 2.0]], dtype=torch.float64)
    k = torch.tensor([[1.0, 0.0, 5.0, 0.0], [0.0, 1.0, 7.0, 0.0]], dtype=torch.float64)
    v = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]], dtype=torch.float64)
    # Scores 3 and 1 over sqrt(4): a difference of 1.
    first = 1 / (1 + math.exp(-1.0))
    expected = torch.tensor([[first, 1 - first, 0.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(get_op(name).reference(q, k, v), expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_agrees_with_torch_attention(name: str) -> None:
    q, k, v = draw(1, 5, 20), draw(2, 33, 20), draw(3, 33, 20)
    expected = functional.scaled_dot_product_attention(q[None, None], k[None, None], v[None, None])[0, 0]
    torch.testing.assert_close(get_op(name).reference(q, k, v), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_one_key_returns_its_value(name: str) -> None:
    v = draw(4, 1, 3)
    assert torch.equal(get_op(name).reference(draw(5, 2, 3), draw(6, 1, 3), v), v.expand(2, 3))
