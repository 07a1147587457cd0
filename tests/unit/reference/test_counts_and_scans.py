"""Counts and places from numbers with an error, scans that round at every step, x log y at its edges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from reference_cases import outputs_of


def value_and_bound(reference: Any, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    ((value, bound),) = outputs_of(reference, *inputs)
    return value, bound


def test_x_log_y_of_zero_and_nan_is_nan() -> None:
    x, y = torch.tensor([0.0, 0.0, 2.0]), torch.tensor([math.nan, 0.0, 3.0])
    value, _ = value_and_bound(torch.special.xlogy, x, y)
    torch.testing.assert_close(value, torch.special.xlogy(x.double(), y.double()), equal_nan=True)


def test_elements_that_may_be_zero_make_a_count_uncertain() -> None:
    x = torch.tensor([[1.0, 1.0, 0.1], [1.0, 2.0, 3.0]])
    value, bound = value_and_bound(lambda x: ((x + 0.3) - 0.4).count_nonzero(-1), x)
    assert value[1] == 3
    assert bound.tolist() == [1.0, 0.0]


def test_membership_of_uncertain_numbers_is_unknown() -> None:
    x = torch.tensor([0.1, 5.0])
    _, bound = value_and_bound(lambda x: torch.isin(x + 0.2, torch.tensor([0.3], dtype=torch.float64)), x)
    assert bool((bound > 0).all())


def test_places_allow_for_the_errors_of_both_operands() -> None:
    x = torch.tensor([1.0])

    def reference(x: torch.Tensor) -> torch.Tensor:
        return torch.searchsorted(x * 3.3, x * 3.3 + 4e-7)

    _, alone = value_and_bound(lambda x: torch.searchsorted(x, x + 1.0), x)
    assert alone.item() == 0.0
    _, bound = value_and_bound(reference, x)
    assert bound.item() == 1.0


def test_a_scan_that_rounds_every_partial_result_is_within_the_bound() -> None:
    generator = torch.Generator().manual_seed(0)
    for offset in (0.0, 1000.0, -1000.0):
        x = torch.randn(2000, generator=generator) + offset
        value, bound = value_and_bound(lambda x: x.logcumsumexp(0), x)
        partial, scanned = np.float32(-np.inf), []
        for logit in x.numpy():
            partial = np.logaddexp(partial, logit, dtype=np.float32)
            scanned.append(partial)
        off = (torch.tensor(np.array(scanned)).double() - value).abs()
        assert bool((off <= bound).all()), offset
        assert bool((bound <= 1e-3 * value.abs().clamp(min=1.0)).all())
