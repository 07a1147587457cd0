"""Triton's scalar types as NumPy arrays: which dtype holds one, and conversion between any two of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from gpuemu.candidates.triton_numbers import (
    BFLOAT16,
    FLOAT8,
    FLOAT32,
    FLOAT64,
    Array,
    decode_float8,
    encode_float8,
    step_toward_zero,
    to_float,
    to_integer,
)

Handle = interpreter.TensorHandle
_ADDRESS = np.dtype(np.uint64)
_NUMPY_DTYPES = {
    "int1": np.dtype(np.bool_),
    "fp16": np.dtype(np.float16),
    "bf16": BFLOAT16,
    "fp32": FLOAT32,
    "fp64": FLOAT64,
    **{f"{sign}int{bits}": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **dict.fromkeys(FLOAT8, np.dtype(np.uint8)),
}


def get_numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """The NumPy dtype that holds a Triton scalar, block or pointer type; bfloat16 is ml_dtypes' own."""
    scalar = dtype.scalar
    return _ADDRESS if isinstance(scalar, tl.pointer_type) else _NUMPY_DTYPES[scalar.name]


def get_pointee(pointer: Any) -> Any:
    """The type of what a handle of addresses points to; a pointer type if that is a pointer."""
    return pointer.dtype.scalar.element_ty


def to_values(data: Array, dtype: Any) -> Array:
    """The numbers that `data` of Triton scalar type `dtype` stands for: fp8 codes decoded, else unchanged."""
    return decode_float8(data, FLOAT8[dtype.name]) if dtype.is_fp8() else data


def convert(data: Array, source: Any, target: Any, toward_zero: bool = False) -> Array:
    """`data` of Triton scalar type `source` as `target`, rounded once, to nearest even or toward zero."""
    values = to_values(data, source)
    if target.is_fp8():
        form = FLOAT8[target.name]
        codes = encode_float8(values, form)
        if not toward_zero:
            return codes
        too_large = np.abs(decode_float8(codes, form)) > np.abs(values.astype(np.float64))
        return codes - too_large.astype(np.uint8)
    numpy_dtype = get_numpy_dtype(target)
    if target.is_floating():
        rounded = to_float(values, numpy_dtype)
        return step_toward_zero(rounded, values) if toward_zero else rounded
    if values.dtype.kind in "iub":
        return values.astype(numpy_dtype)
    return to_integer(values, numpy_dtype)


def convert_to_bits(data: Array, source: Any, target: Any, rounding_mode: Any) -> Array:
    """`convert` in the form of Triton's own `_convert_float`: the result's bit patterns."""
    toward_zero = rounding_mode == interpreter._ir.ROUNDING_MODE.RTZ
    if data.dtype == np.uint16 and source == tl.bfloat16:
        data = data.view(BFLOAT16)
    result = np.ascontiguousarray(convert(data, source, target, toward_zero))
    return result.view(np.dtype(f"u{result.dtype.itemsize}"))


def to_scaled_operand(handle: Any) -> Array:
    """Operand of `tl.dot_scaled` as float32; packed fp4 (uint8) is unpacked by Triton's own table."""
    if handle.dtype == tl.uint8:
        return interpreter._e2m1_to_f32(handle.data)  # type: ignore[no-any-return]
    return to_values(handle.data, handle.dtype.scalar).astype(FLOAT32)
