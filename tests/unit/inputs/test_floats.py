"""Float inputs: one correct rounding, checked with rational numbers; strict bounds; one NaN."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu.dtypes import DType, get_dtype
from gpuemu.errors import OpDefinitionError, UsageError
from gpuemu.inputs.floats import make_floats
from gpuemu.inputs.random import Stream
from gpuemu.inputs.value_classes import VALUE_CLASS_GENERATORS, Streams

FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
FINITE_CLASSES = sorted(VALUE_CLASS_GENERATORS.keys() - {"sparse_nonfinite"})
seeds = st.integers(0, 2**64 - 1)


def streams_of(seed: int) -> Streams:
    return lambda part: Stream(seed, f"x/{part}")


def floats(
    dtype: str,
    shape: tuple[int, ...] = (40,),
    low: float | None = None,
    high: float | None = None,
    value_class: str | None = None,
    seed: int = 0,
) -> torch.Tensor:
    return make_floats(
        streams_of(seed), shape, get_dtype(dtype), (low, high), value_class, "op 'o': inputs['x']"
    )


def nearest(value: Fraction, dtype: DType) -> Fraction:
    """Round to nearest, ties to even, from the definition (IEEE 754-2019, section 4.3.1); no overflow."""
    if value == 0:
        return value
    exponent = max(math.floor(math.log2(abs(value))), dtype.emin)
    if abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    quantum = Fraction(2) ** (exponent - dtype.precision + 1)
    return round(value / quantum) * quantum  # Python rounds a Fraction's ties to even


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
@given(value_class=st.sampled_from(FINITE_CLASSES), seed=seeds)
@settings(max_examples=25)
def test_each_element_is_the_exact_value_rounded_once(dtype: str, value_class: str, seed: int) -> None:
    exact = np.concatenate(list(VALUE_CLASS_GENERATORS[value_class](streams_of(seed), (40,))))
    elements = floats(dtype, value_class=value_class, seed=seed)
    for value, element in zip(exact, elements.double().tolist(), strict=True):
        assert Fraction(element) == nearest(Fraction(float(value)), get_dtype(dtype))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_values_next_to_a_midpoint_are_not_rounded_twice(dtype: str) -> None:
    shape = (1 << 18,)
    exact = np.concatenate(list(VALUE_CLASS_GENERATORS["bell"](streams_of(1), shape)))
    elements = floats(dtype, shape, value_class="bell", seed=1).double().numpy()
    through_float32 = torch.from_numpy(exact).float().to(getattr(torch, dtype)).double().numpy()
    (places,) = np.nonzero(elements != through_float32)
    assert places.size >= 1  # the sample has such values
    for place in places:
        assert Fraction(elements[place]) == nearest(Fraction(exact[place]), get_dtype(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_elements_are_fresh_cpu_memory_of_the_dtype(dtype: str) -> None:
    elements = floats(dtype, (3, 5), value_class="bell")
    assert elements.shape == (15,) and elements.dtype == getattr(torch, dtype)
    assert elements.device.type == "cpu" and elements.untyped_storage().nbytes() == 15 * elements.itemsize


# Canonical quiet NaNs: IEEE 754-2019 section 6.2.1 for the IEEE-like formats, OCP OFP8 1.0 table 1 for e4m3.
@pytest.mark.parametrize(
    ("dtype", "integer", "nan", "infinities"),
    [
        ("float64", torch.int64, 0x7FF8000000000000, (0x7FF0000000000000, -(1 << 63) + 0x7FF0000000000000)),
        ("float32", torch.int32, 0x7FC00000, (0x7F800000, -(1 << 31) + 0x7F800000)),
        ("float16", torch.int16, 0x7E00, (0x7C00, -(1 << 15) + 0x7C00)),
        ("bfloat16", torch.int16, 0x7FC0, (0x7F80, -(1 << 15) + 0x7F80)),
        ("float8_e5m2", torch.int8, 0x7E, (0x7C, -(1 << 7) + 0x7C)),
        ("float8_e4m3fn", torch.int8, 0x7F, None),
    ],
)
def test_nonfinite_values_have_the_same_bits_wherever_they_lie(
    dtype: str, integer: torch.dtype, nan: int, infinities: tuple[int, int] | None
) -> None:
    # 67 is a whole number of no vector length, so torch's vector loops and their remainders both take part.
    elements = floats(dtype, (67, 1), value_class="sparse_nonfinite", seed=5)
    bits = elements.view(integer)
    is_nan = torch.isnan(elements.double())
    assert is_nan.sum() > 3
    assert set(bits[is_nan].tolist()) == {nan}
    if infinities:
        assert set(bits[torch.isinf(elements.double())].tolist()) == set(infinities)
    else:
        assert elements.double().nan_to_num(0.0).abs().max() == 448  # no infinity: the largest number instead


# --- bounds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@given(low=st.floats(-300, 300), width=st.floats(1e-3, 300), seed=seeds)
@settings(max_examples=30)
def test_bounded_values_respect_their_bounds_after_rounding(
    dtype: str, low: float, width: float, seed: int
) -> None:
    try:
        elements = floats(dtype, (200,), low, low + width, "bell", seed).double()
    except OpDefinitionError:
        numbers = every_number(dtype)
        assert not ((numbers >= low) & (numbers < low + width)).any()
        return
    assert elements.min() >= low and elements.max() < low + width


@cache
def every_number(dtype: str) -> np.ndarray:
    """All numbers of a format of 8 or 16 bits; only their ranges can be so short as to be empty above."""
    bits = get_dtype(dtype).bits
    assert bits <= 16
    patterns = np.arange(2**bits, dtype=f"u{bits // 8}")
    with np.errstate(invalid="ignore"):  # NaNs are among them
        return patterns.view(getattr(ml_dtypes, dtype, dtype)).astype(np.float64)


@pytest.mark.parametrize(
    ("dtype", "largest"),
    # The predecessor of 1 is 1 - 2^-p; float64 draws have 32 bits.
    [
        ("float64", 1 - 2.0**-31),
        ("float32", 1 - 2.0**-24),
        ("float16", 1 - 2.0**-11),
        ("bfloat16", 1 - 2.0**-8),
    ],
)
def test_the_largest_value_is_the_last_before_high(dtype: str, largest: float) -> None:
    class Largest:
        def draws32(self, count: int, start: int) -> np.ndarray:
            return np.full(count, 2**32 - 1, np.uint32)

    elements = make_floats(lambda part: Largest(), (1,), get_dtype(dtype), (-1.0, 1.0), None, "x")  # type: ignore
    assert elements.item() == largest


def test_a_low_bound_that_is_not_storable_is_not_undercut() -> None:
    elements = floats("bfloat16", (4000,), 0.1012, 0.2)
    assert elements.double().min().item() == 208 / 2**11  # 0.1012 is 207.26 / 2^11, nearer to 207
    assert elements.unique().numel() > 100


def test_bounded_values_are_uniform_whatever_the_class() -> None:
    tables = [floats("float32", (1 << 14,), -1.0, 1.0, name) for name in (None, "impulse", "offset")]
    assert all(torch.equal(tables[0], table) for table in tables)
    assert abs(tables[0].mean()) < 5 * math.sqrt(1 / 3 / 2**14)
    assert abs(tables[0].var() - 1 / 3) < 5 * math.sqrt((1 / 5 - 1 / 9) / 2**14)


@pytest.mark.parametrize(("low", "high", "bounds"), [(0.0, None, (0, 20)), (None, 0.0, (-20, 0))])
def test_one_bound_implies_the_other(low: float | None, high: float | None, bounds: tuple[int, int]) -> None:
    elements = floats("float32", (4000,), low, high)
    assert elements.min() >= bounds[0] and elements.max() < bounds[1]
    assert elements.max() - elements.min() > 19.9


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("float32", 1.0, 1.0),
        ("float32", 2.0, 1.0),
        ("float32", math.nan, 1.0),
        ("float32", 0.0, math.inf),
        ("float32", -math.inf, None),
        ("bfloat16", 1.001, 1.002),  # between neighbours
        ("float16", 1e6, 2e6),  # beyond the largest number
    ],
)
def test_bounds_without_a_value_are_refused(dtype: str, low: float, high: float | None) -> None:
    with pytest.raises(OpDefinitionError, match=r"op 'o': inputs\['x'\]"):
        floats(dtype, (4,), low, high)


@pytest.mark.parametrize("bound", [None, 1.0])
def test_an_unknown_value_class_is_a_usage_error_that_names_the_known(bound: float | None) -> None:
    with pytest.raises(
        UsageError, match=r"inputs\['x'\]: unknown value class 'gaussian'; known: uniform, bell"
    ):
        floats("float32", (4,), None, bound, "gaussian")


def test_a_missing_value_class_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="needs a value class"):
        floats("float32", (4,))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("value_class", sorted(VALUE_CLASS_GENERATORS))
def test_empty_shapes_give_empty_tensors(dtype: str, value_class: str) -> None:
    assert floats(dtype, (3, 0), value_class=value_class).shape == (0,)
