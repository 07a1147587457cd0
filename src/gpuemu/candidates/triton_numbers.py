"""Number conversions for interpreted Triton kernels, each with exactly one rounding.

NumPy and ml_dtypes round correctly from float32, but their other routes into bfloat16 round twice (float64 and
int64 go through float32) and their float-to-integer casts are undefined outside the target's range. What is
defined here instead is what NVIDIA's instructions do (PTX ISA 8.7, sections "cvt" and "fma"):

- float to float: round to nearest, ties to even; NaN stays NaN;
- float to integer: toward zero, saturating; 8-bit targets keep the low byte of a 16-bit result;
- fp8: round to nearest even, saturating at the largest finite value (`cvt.rn.satfinite`), NaN stays NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOAT32 = np.dtype(np.float32)
FLOAT64 = np.dtype(np.float64)


def add_rounding_to_odd(x: Array, y: Array) -> Array:
    """x + y of float64 arrays, rounded to odd: a later rounding to at most 51 bits is then the only rounding.

    Source: S. Boldo and G. Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using
    rounding to odd", IEEE Trans. Computers 57(4), 2008; the error term is Knuth's TwoSum.
    """
    total = x + y
    shifted = total - x
    error = (x - (total - shifted)) + (y - shifted)
    inexact = np.isfinite(total) & np.isfinite(error) & (error != 0)
    even = (np.ascontiguousarray(total).view(np.int64) & 1) == 0
    neighbour = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where(inexact & even, neighbour, total)


def float64_to_bfloat16(x: Array) -> Array:
    """Nearest bfloat16 of a float64 array: float32 rounded to odd first, which leaves a single rounding."""
    near = np.ascontiguousarray(x.astype(np.float32))
    back = near.astype(np.float64)
    inexact = (back != x) & ~np.isnan(x)
    even = (near.view(np.int32) & 1) == 0
    neighbour = np.nextafter(near, np.where(x > back, np.inf, -np.inf).astype(np.float32))
    return np.where(inexact & even, neighbour, near).astype(BFLOAT16)


def _integer_to_float64_odd(x: Array) -> Array:
    """float64 of an integer array, rounded to odd where it does not fit 53 bits."""
    high = (x >> 32).astype(np.float64) * 2.0**32
    low = (x & 0xFFFFFFFF).astype(np.float64)
    return add_rounding_to_odd(high, low)


def to_float(x: Array, dtype: np.dtype[Any]) -> Array:
    """Any real array as the float `dtype` (float16, bfloat16, float32, float64), rounded once, to even."""
    if x.dtype == dtype:
        return x
    if x.dtype == np.bool_:
        return x.astype(np.float32).astype(dtype)
    if x.dtype.kind in "iu":
        if dtype.itemsize > 2:
            return x.astype(dtype)
        x = _integer_to_float64_odd(x) if x.dtype.itemsize == 8 else x.astype(np.float64)
    if dtype != BFLOAT16:
        return (x.astype(np.float32) if x.dtype == BFLOAT16 else x).astype(dtype)
    return float64_to_bfloat16(x) if x.dtype == FLOAT64 else x.astype(np.float32).astype(BFLOAT16)


def to_integer(x: Array, dtype: np.dtype[Any]) -> Array:
    """A float array as the integer `dtype` as PTX `cvt.rzi` does it: toward zero, saturating.

    For 8-bit targets LLVM converts to 16 bits and keeps the low byte, so only the 16-bit range saturates. NaN
    gives 0, but the pattern of the sign bit alone where source or target has 64 bits (measured on an H200 by
    tests/gpu/interpreter_agreement.py).
    """
    carrier = dtype if dtype.itemsize > 1 else np.dtype(np.int16 if dtype.kind == "i" else np.uint16)
    limits = np.iinfo(carrier)
    whole = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
    above = whole >= float(limits.max)  # float(2**63 - 1) is 2**63: from there on the result is the maximum
    below = whole <= float(limits.min)
    inside = np.where(above | below, 0.0, whole).astype(carrier)
    clipped: Array = np.where(below, carrier.type(limits.min), inside)
    clipped = np.where(above, carrier.type(limits.max), clipped)
    if carrier.itemsize == 8 or x.dtype == FLOAT64:
        sign = np.array(1 << (8 * carrier.itemsize - 1), np.uint64).astype(carrier)
        clipped = np.where(np.isnan(x), sign, clipped)
    return clipped.astype(dtype)


def fma(x: Array, y: Array, z: Array) -> Array:
    """x*y + z with one rounding, in the dtype of z (IEEE 754-2019 section 5.4.1, fusedMultiplyAdd)."""
    if z.dtype == FLOAT64:
        return _fma_float64(x, y, z)
    wide = [operand.astype(np.float64) for operand in (x, y, z)]
    product = wide[0] * wide[1]  # exact: at most 24 + 24 bits
    return to_float(add_rounding_to_odd(product, wide[2]), z.dtype)


def _fma_float64(x: Array, y: Array, z: Array) -> Array:
    x, y, z = np.broadcast_arrays(x, y, z)
    result: Array = x * y + z
    for index in np.ndindex(result.shape):
        operands = float(x[index]), float(y[index]), float(z[index])
        if np.isfinite(operands).all():
            exact = Fraction(operands[0]) * Fraction(operands[1]) + Fraction(operands[2])
            if exact:
                result[index] = _nearest_float64(exact)
    return result


def _nearest_float64(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


@dataclass(frozen=True)
class Float8:
    """An 8-bit float format: exponent and fraction widths, bias, and the codes of its special values."""

    fraction_bits: int
    bias: int
    largest_code: int  # of the largest finite value, without sign
    nan_code: int
    infinity_code: int | None = None
    has_negative_zero: bool = True

    def values(self) -> Array:
        """The 256 values by code, as float64."""
        return _float8_values(self)


# OCP 8-bit floating point specification (OFP8) revision 1.0 for e5m2 and e4m3fn; the *fnuz* formats as in
# ml_dtypes; fp8e4b15 is Triton's own: bias 15, every code finite (triton/language/core.py, class dtype).
FLOAT8 = {
    "fp8e5": Float8(2, 15, largest_code=0x7B, nan_code=0x7F, infinity_code=0x7C),
    "fp8e4nv": Float8(3, 7, largest_code=0x7E, nan_code=0x7F),
    "fp8e4b8": Float8(3, 8, largest_code=0x7F, nan_code=0x80, has_negative_zero=False),
    "fp8e5b16": Float8(2, 16, largest_code=0x7F, nan_code=0x80, has_negative_zero=False),
    "fp8e4b15": Float8(3, 15, largest_code=0x7F, nan_code=0x7F),
}


@cache
def _float8_values(form: Float8) -> Array:
    code = np.arange(256)
    fraction = code & ((1 << form.fraction_bits) - 1)
    exponent = (code & 0x7F) >> form.fraction_bits
    hidden = np.where(exponent > 0, 1 << form.fraction_bits, 0)
    scale = np.maximum(exponent, 1) - form.bias - form.fraction_bits
    value: Array = np.where(code & 0x80, -1.0, 1.0) * np.ldexp((fraction + hidden).astype(np.float64), scale)
    magnitude = code & 0x7F
    if form.infinity_code is not None:
        value = np.where(magnitude == form.infinity_code, np.where(code & 0x80, -np.inf, np.inf), value)
        value = np.where(magnitude > form.infinity_code, np.nan, value)
    elif form.nan_code > form.largest_code:
        value = np.where((code if form.nan_code & 0x80 else magnitude) == form.nan_code, np.nan, value)
    value.setflags(write=False)
    return value


def decode_float8(codes: Array, form: Float8) -> Array:
    """Codes (uint8) as float64, exactly."""
    return form.values()[codes]


def encode_float8(x: Array, form: Float8) -> Array:
    """Codes (uint8) of a float array: nearest even, saturating at the largest finite value, NaN kept."""
    wide = x.astype(np.float64)
    magnitude = np.nan_to_num(np.abs(wide), nan=0.0, posinf=np.inf)
    largest = float(form.values()[form.largest_code])
    magnitude = np.minimum(magnitude, largest)
    least = 1 - form.bias
    # frexp gives 0.5 <= m < 1, hence the -1; subnormals and 0 take the least exponent.
    exponent = np.frexp(np.maximum(magnitude, 2.0**least))[1] - 1
    steps = np.rint(np.ldexp(magnitude, form.fraction_bits - exponent)).astype(np.int64)
    code = ((exponent - least) << form.fraction_bits) + steps
    negative = np.signbit(wide) & (form.has_negative_zero | (code != 0))
    code = np.where(np.isnan(wide), form.nan_code, code | np.where(negative, 0x80, 0))
    return code.astype(np.uint8)


def step_toward_zero(rounded: Array, exact: Array) -> Array:
    """Turn rounding to nearest into rounding toward zero: where |rounded| > |exact|, one step back."""
    bits = np.ascontiguousarray(rounded).view(np.dtype(f"u{rounded.dtype.itemsize}"))
    too_large = np.abs(rounded.astype(np.float64)) > np.abs(exact.astype(np.float64))
    stepped: Array = (bits - too_large.astype(bits.dtype)).view(rounded.dtype)
    return stepped
