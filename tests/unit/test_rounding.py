"""Rounding once to every narrow dtype, against the list of all its numbers in exact arithmetic."""

from __future__ import annotations

import bisect
import itertools
import math
from fractions import Fraction
from functools import cache

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu.dtypes import get_dtype
from gpuemu.rounding import half_ulp, round_to

NARROW = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}
by_name = pytest.mark.parametrize("name", NARROW)


@cache
def magnitudes(name: str) -> tuple[float, ...]:
    """The non-negative finite numbers of a format in order; the parity of a place is that of its last bit."""
    count = 1 << (get_dtype(name).bits - 1)
    patterns = np.arange(count, dtype=np.uint16 if count > 128 else np.uint8)
    with np.errstate(invalid="ignore"):  # NaN patterns
        values = patterns.view(NARROW[name]).astype(np.float64)
    return tuple(values[np.isfinite(values)].tolist())


def nearest(x: float, name: str) -> float:
    """The number that x rounds to, ties to even; beyond the largest, infinity or (without one) the largest."""
    numbers, size = magnitudes(name), Fraction(abs(x))
    high = bisect.bisect_left(numbers, abs(x))
    if high == len(numbers):
        step = Fraction(numbers[-1]) - Fraction(numbers[-2])
        overflows = get_dtype(name).has_infinity and size >= Fraction(numbers[-1]) + step / 2
        return math.copysign(math.inf if overflows else numbers[-1], x)
    if high == 0 or numbers[high] == abs(x):
        return math.copysign(numbers[high], x)
    below, above = size - Fraction(numbers[high - 1]), Fraction(numbers[high]) - size
    take_low = below < above or (below == above and (high - 1) % 2 == 0)
    return math.copysign(numbers[high - 1 if take_low else high], x)


def rounded(values: list[float], name: str) -> list[float]:
    return round_to(torch.tensor(values, dtype=torch.float64), name).double().tolist()


@by_name
@settings(max_examples=200, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_number_rounds_to_the_nearest(name: str, x: float) -> None:
    assert rounded([x], name) == [nearest(x, name)]


@by_name
def test_numbers_beside_every_midpoint_round_once(name: str) -> None:
    """Within 2^-45 of a midpoint a detour through float32 would land on it, and round a second time."""
    pairs = list(itertools.pairwise(magnitudes(name)))
    middles = [(a + b) / 2 for a, b in (pairs if len(pairs) < 200 else pairs[::97])]
    values = [m * (1 + offset) for m in middles for offset in (-(2.0**-45), 0.0, 2.0**-45)]
    assert rounded(values, name) == [nearest(v, name) for v in values]
    assert rounded([-v for v in values], name) == [-nearest(v, name) for v in values]


@by_name
def test_every_number_of_the_format_is_kept(name: str) -> None:
    numbers = list(magnitudes(name))
    assert rounded(numbers, name) == numbers


@pytest.mark.parametrize("name", ["float16", "float8_e4m3fn", "float8_e5m2"])
def test_ml_dtypes_agrees_where_it_rounds_once(name: str) -> None:
    """float32 numbers reach the format in one rounding; those beyond its range are left out."""
    random = np.random.default_rng(5)
    x = (random.standard_normal(20_000) * 2.0 ** random.integers(-12, 7, 20_000)).astype(np.float32)
    x = x[np.abs(x) < get_dtype(name).max]
    assert rounded(x.astype(np.float64).tolist(), name) == x.astype(NARROW[name]).astype(np.float64).tolist()


@by_name
def test_the_ends_of_the_range(name: str) -> None:
    dtype = get_dtype(name)
    edge = dtype.max + (dtype.max - magnitudes(name)[-2]) / 2
    overflow = math.inf if dtype.has_infinity else dtype.max
    inside, outside = math.nextafter(edge, 0.0), math.nextafter(edge, math.inf)
    assert rounded([inside, outside, math.inf, -math.inf], name) == [dtype.max, overflow, overflow, -overflow]
    assert math.isnan(rounded([math.nan], name)[0])
    tiny = dtype.smallest_subnormal
    assert rounded([tiny / 2, math.nextafter(tiny / 2, 1.0), -tiny / 4], name) == [0.0, tiny, 0.0]
    assert math.copysign(1.0, rounded([-tiny / 4], name)[0]) == -1.0


@by_name
def test_half_an_ulp_is_half_the_gap_above(name: str) -> None:
    numbers = magnitudes(name)[:-1]
    gaps = [(b - a) / 2 for a, b in itertools.pairwise(magnitudes(name))]
    assert half_ulp(torch.tensor(numbers, dtype=torch.float64), name).tolist() == gaps
