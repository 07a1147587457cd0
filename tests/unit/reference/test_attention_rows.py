"""Attention's rows without a finite score: 0 where masks removed every key, else not determined."""

from __future__ import annotations

import math

import pytest
import torch
from input_regimes import draw
from reference_cases import outputs_of
from torch.nn import functional


def with_infinite_row(dims: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """q, k, v of 4 rows whose second row of scores is -inf throughout."""
    q, k = draw("normal", (4, 3), 0), -draw("normal", (4, 3), 1).abs()
    q[1, 0] = math.inf
    shape = (1,) * (dims - 2) + (4, 3)
    return q.view(shape), k.view(shape), draw("normal", shape, 2)


@pytest.mark.parametrize("dims", [2, 3, 4])
@pytest.mark.parametrize("is_causal", [False, True])
def test_scores_that_infinite_inputs_made_are_not_judged(dims: int, is_causal: bool) -> None:
    inputs = with_infinite_row(dims)
    ((_, bound),) = outputs_of(
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal), *inputs
    )
    q, k = inputs[:2]
    scores = (q @ k.mT).view(4, 4)
    assert scores[1].tolist() == [-math.inf] * 4
    row = bound.view(4, 3)
    assert row.isinf().all(-1).tolist() == [False, True, False, False]
    assert bool((row[[0, 2, 3]] < 1e-5).all())


@pytest.mark.parametrize("dims", [3, 4])
def test_rows_that_a_mask_removes_are_0(dims: int) -> None:
    shape = (1,) * (dims - 2) + (4, 3)
    inputs = [draw("normal", shape, seed) for seed in range(3)]
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[2] = False
    ((value, bound),) = outputs_of(functional.scaled_dot_product_attention, *inputs, mask)
    assert value.view(4, 3)[2].tolist() == [0.0] * 3
    assert bool((bound < 1e-5).all())


def test_a_removed_row_is_0_beside_one_that_infinities_made() -> None:
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[2] = False
    ((value, bound),) = outputs_of(functional.scaled_dot_product_attention, *with_infinite_row(4), mask)
    assert bound.view(4, 3).isinf().all(-1).tolist() == [False, True, False, False]
    assert value.view(4, 3)[2].tolist() == [0.0] * 3
