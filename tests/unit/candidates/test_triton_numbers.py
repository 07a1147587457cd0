"""Each conversion against an independent truth: a table of all values and exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu.candidates import triton_numbers as numbers
from gpuemu.candidates.triton_numbers import BFLOAT16, FLOAT8

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")

_ALL_BITS = np.arange(65536, dtype=np.uint16)
# Patterns below 0x7f80 are the finite values of positive sign (truncated float32 patterns).
_MAGNITUDES = (np.arange(0x7F80, dtype=np.uint32) << 16).view(np.float32).astype(np.float64)
_FINITE = np.concatenate([-_MAGNITUDES[:0:-1], _MAGNITUDES])


def nearest_bfloat16(value: Fraction) -> float:
    """Round a rational to bfloat16 by comparing exact distances to its two neighbours."""
    largest = Fraction(float(_FINITE[-1]))
    if abs(value) >= largest + Fraction(2) ** 119:  # half a step above the largest: 2**127 / 2**7 / 2
        return float("inf") if value > 0 else float("-inf")
    high = min(int(np.searchsorted(_FINITE, float(value))), len(_FINITE) - 1)
    near = sorted(
        range(max(high - 2, 0), min(high + 3, len(_FINITE))), key=lambda i: abs(Fraction(_FINITE[i]) - value)
    )
    best, second = (Fraction(_FINITE[i]) for i in near[:2])
    if best != second and abs(best - value) == abs(second - value):
        even = [float(b) for b in (best, second) if _bits(float(b)) % 2 == 0]
        return even[0]
    return float(best)


def _bits(value: float) -> int:
    return int(np.array([value], np.float32).astype(BFLOAT16).view(np.uint16)[0])


def test_float32_of_every_bfloat16_is_the_shifted_pattern() -> None:
    values = _ALL_BITS.view(BFLOAT16)
    wide = numbers.to_float(values, np.dtype(np.float32))
    expected = (_ALL_BITS.astype(np.uint32) << 16).view(np.float32)
    assert np.array_equal(wide, expected, equal_nan=True)


def test_every_bfloat16_survives_float16_and_float64_as_far_as_they_hold_it() -> None:
    values = _ALL_BITS.view(BFLOAT16)
    back = numbers.to_float(numbers.to_float(values, np.dtype(np.float64)), BFLOAT16)
    assert np.array_equal(back.astype(np.float32), values.astype(np.float32), equal_nan=True)
    with np.errstate(over="ignore"):
        half = numbers.to_float(values, np.dtype(np.float16))
        expected = values.astype(np.float32).astype(np.float16)
    assert np.array_equal(half, expected, equal_nan=True)


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=100, deadline=None)
def test_float64_rounds_to_bfloat16_once(value: float) -> None:
    with np.errstate(over="ignore"):
        got = float(numbers.to_float(np.array([value]), BFLOAT16)[0])
    assert got == nearest_bfloat16(Fraction(value))


@pytest.mark.parametrize("value", [1 + 2.0**-8 + 2.0**-40, 1 + 3 * 2.0**-8 - 2.0**-45])
def test_float64_just_off_a_midpoint_is_not_rounded_twice(value: float) -> None:
    got = float(numbers.to_float(np.array([value]), BFLOAT16)[0])
    assert got == nearest_bfloat16(Fraction(value))
    # The way through float32 loses the last bit: this is what the function is for.
    assert float(np.array([value], np.float32).astype(BFLOAT16)[0]) != got


@given(st.integers(-(2**63), 2**63 - 1))
@settings(max_examples=100, deadline=None)
def test_int64_rounds_to_bfloat16_once(value: int) -> None:
    assert float(numbers.to_float(np.array([value]), BFLOAT16)[0]) == nearest_bfloat16(Fraction(value))


@given(st.integers(0, 2**64 - 1))
@settings(max_examples=100, deadline=None)
def test_uint64_rounds_to_bfloat16_once(value: int) -> None:
    got = float(numbers.to_float(np.array([value], np.uint64), BFLOAT16)[0])
    assert got == nearest_bfloat16(Fraction(value))


_floats32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
_patterns = st.integers(0, 65535)


@given(_patterns, _patterns, _patterns)
@settings(max_examples=100, deadline=None)
def test_fma_of_bfloat16_rounds_once(a: int, b: int, c: int) -> None:
    x, y, z = (np.array([bits], np.uint16).view(BFLOAT16) for bits in (a, b, c))
    operands = [float(v[0]) for v in (x, y, z)]
    with np.errstate(all="ignore"):
        got = float(numbers.fma(x, y, z)[0])
        if not np.isfinite(operands).all():
            expected = operands[0] * operands[1] + operands[2]
            assert got == expected or (np.isnan(got) and np.isnan(expected))
            return
    assert got == nearest_bfloat16(Fraction(operands[0]) * Fraction(operands[1]) + Fraction(operands[2]))


def test_fma_of_bfloat16_sees_a_tiny_addend_at_a_tie() -> None:
    # 1.0625 * 1.0625 = 1.12890625 lies half way between two bfloat16; a tiny addend decides.
    x = np.array([1.0625, 1.0625], np.float32).astype(BFLOAT16)
    z = np.array([2.0**-100, -(2.0**-100)], np.float32).astype(BFLOAT16)
    assert numbers.fma(x, x, z).astype(np.float64).tolist() == [1.1328125, 1.125]


@given(_floats32, _floats32, _floats32)
@settings(max_examples=100, deadline=None)
def test_fma_of_float32_rounds_once(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    x, y, z = (np.array([v], np.float32) for v in (a, b, c))
    with np.errstate(all="ignore"):
        got = float(numbers.fma(x, y, z)[0])
        near = np.float32(float(exact)) if abs(exact) < 2**1023 else np.float32(np.inf)
    steps = [near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))]
    if np.isfinite(steps).all() and np.isfinite(got):
        assert abs(Fraction(got) - exact) <= min(abs(Fraction(float(s)) - exact) for s in steps)
    else:
        assert abs(exact) > Fraction(float(np.finfo(np.float32).max)) / 2


@given(st.floats(-1e150, 1e150), st.floats(-1e150, 1e150), st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=100, deadline=None)
def test_fma_of_float64_rounds_once(a: float, b: float, c: float) -> None:
    got = numbers.fma(np.array([a]), np.array([b]), np.array([c]))[0]
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    assert float(got) == (float(exact) if abs(exact) < Fraction(2) ** 1023 else got)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("fp8e5", ml_dtypes.float8_e5m2),
        ("fp8e4nv", ml_dtypes.float8_e4m3fn),
        ("fp8e4b8", ml_dtypes.float8_e4m3fnuz),
        ("fp8e5b16", ml_dtypes.float8_e5m2fnuz),
    ],
)
def test_float8_agrees_with_ml_dtypes(name: str, dtype: type) -> None:
    form = FLOAT8[name]
    codes = np.arange(256, dtype=np.uint8)
    values = codes.view(dtype).astype(np.float64)
    assert np.array_equal(numbers.decode_float8(codes, form), values, equal_nan=True)
    # Encoding: within the finite range, at every float16, which includes all midpoints of e4m3 and e5m2.
    halves = _ALL_BITS.view(np.float16)
    inside = np.abs(halves.astype(np.float64)) <= float(np.nanmax(np.where(np.isinf(values), np.nan, values)))
    samples = halves[inside]
    got = numbers.encode_float8(samples, form)
    assert np.array_equal(got, samples.astype(np.float32).astype(dtype).view(np.uint8))


@pytest.mark.parametrize(("name", "largest"), [("fp8e5", 57344.0), ("fp8e4nv", 448.0)])
def test_float8_saturates_and_keeps_nan(name: str, largest: float) -> None:
    form = FLOAT8[name]
    x = np.array([1e6, np.inf, -1e6, -np.inf, np.nan], np.float32)
    assert np.array_equal(
        numbers.decode_float8(numbers.encode_float8(x, form), form),
        np.array([largest, largest, -largest, -largest, np.nan]),
        equal_nan=True,
    )


def test_e4m3_is_not_rounded_through_bfloat16() -> None:
    # BUGS.md B10a: both lie just above a midpoint that bfloat16 cannot tell from it.
    x = np.array([1.0625 + 2.0**-20, 17 + 2.0**-10], np.float32)
    form = FLOAT8["fp8e4nv"]
    assert numbers.decode_float8(numbers.encode_float8(x, form), form).tolist() == [1.125, 18.0]


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        (np.int32, [3e9, -3e9, 2.75, -2.75, np.inf], [2**31 - 1, -(2**31), 2, -2, 2**31 - 1]),
        (np.uint32, [5e9, -1.0, 7.75], [2**32 - 1, 0, 7]),
        (np.int64, [1e19, -1e19, 2.0**62], [2**63 - 1, -(2**63), 2**62]),
        (np.uint64, [1e20, -5.0, 2.0**63], [2**64 - 1, 0, 2**63]),
        (np.int16, [40000.0, -40000.0], [32767, -32768]),
        # LLVM converts to 16 bits and keeps the low byte: 300 = 0x12c, 32767 = 0x7fff.
        (np.int8, [127.5, 300.0, 1e9, -128.5], [127, 44, -1, -128]),
        (np.uint8, [255.5, 256.0, -3.0], [255, 0, 0]),
    ],
)
@pytest.mark.parametrize("source", [np.float32, np.float64])
def test_float_to_integer_is_ptx_cvt_rzi(
    source: type, dtype: type, values: list[float], expected: list[int]
) -> None:
    with np.errstate(all="ignore"):
        assert numbers.to_integer(np.array(values, source), np.dtype(dtype)).tolist() == expected


@pytest.mark.parametrize(
    ("source", "dtype", "expected"),
    [
        (np.float32, np.int8, 0),
        (np.float32, np.int32, 0),
        (np.float32, np.int64, -(2**63)),
        (np.float16, np.uint64, 2**63),
        (np.float64, np.int8, 0),
        (np.float64, np.int16, -(2**15)),
        (np.float64, np.int32, -(2**31)),
    ],
)
def test_nan_to_integer_as_measured_on_a_device(source: type, dtype: type, expected: int) -> None:
    with np.errstate(all="ignore"):
        assert numbers.to_integer(np.array([np.nan], source), np.dtype(dtype)).tolist() == [expected]


def test_step_toward_zero_undoes_rounding_up() -> None:
    exact = np.array([1 + 3 * 2.0**-9, -(1 + 3 * 2.0**-9), 1.0, 3.5e38])
    rounded = numbers.to_float(exact, BFLOAT16)
    stepped = numbers.step_toward_zero(rounded, exact).astype(np.float64)
    assert stepped.tolist() == [1.0, -1.0, 1.0, float(_FINITE[-1])]
