"""The quantum of a tensor against exact rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu.reference.arithmetic import make_arithmetic
from gpuemu.reference.lowest_bit import lowest_bit, may_share_lowest_bit

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=200, deadline=None)
@given(st.lists(FLOATS, min_size=1, max_size=6))
def test_it_is_the_largest_power_of_two_that_divides_all(values: list[float]) -> None:
    actual = lowest_bit(torch.tensor(values, dtype=torch.float64))
    nonzero = [Fraction(v) for v in values if v != 0]
    if not nonzero:
        assert actual == math.inf
        return
    quantum = Fraction(actual)
    assert all((v / quantum).denominator == 1 for v in nonzero)
    assert any((v / (2 * quantum)).denominator != 1 for v in nonzero)


def test_it_needs_no_contiguous_tensor() -> None:
    x = torch.arange(12.0, dtype=torch.float64).view(3, 4) * 0.25
    assert lowest_bit(x.T) == lowest_bit(x) == 0.25
    assert lowest_bit(x[:, ::2] * 2) == 1.0


def test_large_numbers_keep_a_finite_quantum() -> None:
    assert lowest_bit(torch.tensor([2.0**1000], dtype=torch.float64)) == 2.0**1000
    assert lowest_bit(torch.empty(0, dtype=torch.float64)) == math.inf


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-100, 100), min_size=1, max_size=200), st.integers(0, 2**24))
def test_the_sample_never_denies_what_is_exact(values: list[int], total: int) -> None:
    arithmetic = make_arithmetic("P0", "float32")
    x = torch.tensor(values, dtype=torch.float64)
    if total <= lowest_bit(x) * 2.0**23:
        assert may_share_lowest_bit(arithmetic.exact_quanta(), float(total), x)
