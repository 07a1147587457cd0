"""Integer and bool inputs: bounds, defaults, sentinels, fair coins."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu.dtypes import get_dtype
from gpuemu.errors import OpDefinitionError
from gpuemu.inputs.integers import make_booleans, make_integers
from gpuemu.inputs.random import Stream
from gpuemu.inputs.value_classes import Streams

seeds = st.integers(0, 2**64 - 1)


def streams_of(seed: int) -> Streams:
    return lambda part: Stream(seed, f"x/{part}")


def integers(
    dtype: str,
    shape: tuple[int, ...] = (4000,),
    low: float | None = None,
    high: float | None = None,
    sentinel: Any = None,
    seed: int = 0,
) -> torch.Tensor:
    return make_integers(
        streams_of(seed), shape, get_dtype(dtype), (low, high), sentinel, "op 'o': inputs['x']"
    )


@given(low=st.integers(-(2**63), 2**63 - 1), width=st.integers(1, 2**64), count=st.integers(0, 40), seed=seeds)
def test_values_lie_within_their_bounds(low: int, width: int, count: int, seed: int) -> None:
    high = min(low + width, 2**63)
    values = integers("int64", (count,), low, high, seed=seed)
    assert values.dtype == torch.int64 and values.shape == (count,)
    assert all(low <= value < high for value in values.tolist())


def test_every_value_in_the_bounds_is_equally_likely() -> None:
    counts = torch.bincount(integers("int32", (70_000,), 0, 7).long(), minlength=7)
    assert (counts - 10_000).abs().max() < 5 * math.sqrt(10_000)


@pytest.mark.parametrize(
    ("dtype", "low", "high", "smallest", "largest"),
    [
        ("int8", None, None, -128, 127),
        ("int64", None, None, -128, 127),
        ("uint8", None, None, 0, 255),
        ("int64", None, 10, 0, 9),
        ("int32", 1000, None, 1000, 1255),
        ("int8", 0, None, 0, 127),
        ("uint8", 100, None, 100, 255),
        ("int16", 3.0, 5.0, 3, 4),
    ],
)
def test_missing_bounds_have_documented_defaults(
    dtype: str, low: float | None, high: float | None, smallest: int, largest: int
) -> None:
    values = integers(dtype, (20_000,), low, high)
    assert values.dtype == getattr(torch, dtype)
    assert (values.min().item(), values.max().item()) == (smallest, largest)


@pytest.mark.parametrize(
    ("dtype", "low", "high", "message"),
    [
        ("int64", 5, 5, "no value in 5 <= v < 5"),
        ("int64", None, 0, "no value in 0 <= v < 0"),
        ("int8", 0, 129, "0 <= v < 129 does not fit int8"),
        ("uint8", -1, 5, "-1 <= v < 5 does not fit uint8"),
        ("int64", 0.5, 5, "must be integers, got 0.5"),
        ("int64", 0, math.inf, "must be integers, got inf"),
        ("int64", math.nan, 5, "must be integers, got nan"),
    ],
)
def test_impossible_bounds_are_refused(dtype: str, low: float, high: float, message: str) -> None:
    with pytest.raises(OpDefinitionError, match=rf"op 'o': inputs\['x'\].*{message}"):
        integers(dtype, (4,), low, high)


def test_indices_into_nothing_are_fine_when_there_are_none() -> None:
    assert integers("int64", (3, 0), 0, 0).shape == (0,)


# --- sentinels -----------------------------------------------------------------------------------------------


def test_a_sentinel_replaces_an_eighth_and_moves_nothing_else() -> None:
    plain, mixed = integers("int64", (16_000,), 0, 100), integers("int64", (16_000,), 0, 100, -100)
    hit = mixed == -100
    assert abs(hit.sum() - 2000) < 5 * math.sqrt(16_000 / 8 * 7 / 8)
    assert torch.equal(mixed[~hit], plain[~hit])


@given(count=st.integers(1, 3), seed=seeds)
@settings(max_examples=300)
def test_a_sentinel_never_takes_all_elements(count: int, seed: int) -> None:
    assert (integers("int64", (count,), 0, 9, -1, seed) != -1).any()


def test_a_pair_can_hold_a_sentinel_in_either_place() -> None:
    hits = {tuple((integers("int64", (2,), 0, 9, -1, seed) == -1).tolist()) for seed in range(300)}
    assert hits == {(False, False), (True, False), (False, True)}


@pytest.mark.parametrize("sentinel", ["pad", 1.5, 128, -129])
def test_a_sentinel_outside_the_dtype_is_refused(sentinel: Any) -> None:
    with pytest.raises(OpDefinitionError, match=r"inputs\['x'\]: the sentinel .* is no int8"):
        integers("int8", (4,), 0, 5, sentinel)


# --- bool ----------------------------------------------------------------------------------------------------


@given(count=st.integers(0, 200), seed=seeds)
def test_booleans_are_the_words_bits_from_the_lowest(count: int, seed: int) -> None:
    words = Stream(seed, "x/values").words(4)
    bits = [bool(int(words[i // 64]) >> (i % 64) & 1) for i in range(count)]
    values = make_booleans(streams_of(seed), (count,))
    assert values.dtype == torch.bool and values.tolist() == bits


def test_booleans_are_fair() -> None:
    values = make_booleans(streams_of(0), (100, 160))
    assert values.shape == (16_000,)
    assert abs(values.sum() - 8000) < 5 * math.sqrt(4000)
