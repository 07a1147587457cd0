"""Loads, stores and read-modify-write through raw addresses, for interpreted Triton kernels.

Triton's C++ helpers move elements of the built-in NumPy dtypes; bfloat16 passes through them as bit patterns.
Programs of an interpreted kernel run one after another, so a read-modify-write is a load and a store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from triton.runtime import interpreter

from gpuemu.candidates.triton_numbers import BFLOAT16, Array

_native = interpreter._interpreter
_BITS = np.dtype(np.uint16)


def _as_bits(data: Array) -> Array:
    return data.view(_BITS) if data.dtype == BFLOAT16 else data


def load(addresses: Array, mask: Array, fill: Array, dtype: np.dtype[Any]) -> Array:
    """Elements of `dtype` at `addresses` (uint64) where `mask` holds, `fill` elsewhere."""
    plain = _BITS if dtype == BFLOAT16 else dtype
    fill = np.ascontiguousarray(np.broadcast_to(fill.astype(dtype, copy=False), addresses.shape))
    loaded: Array = _native.load(addresses, mask, _as_bits(fill), plain)
    return loaded.view(dtype) if plain != dtype else loaded


def store(addresses: Array, values: Array, mask: Array, dtype: np.dtype[Any]) -> None:
    """Write `values` as `dtype` at `addresses` (uint64) where `mask` holds."""
    # The C++ helper writes the item size of `values`; a mismatch would overwrite the neighbours.
    values = np.ascontiguousarray(values.astype(dtype, copy=False))
    _native.store(addresses, _as_bits(values), mask)


_UPDATES: dict[str, Callable[[Any, Any], Any]] = {
    "FADD": np.add,
    "MAX": np.fmax,
    "MIN": np.fmin,
    "XCHG": lambda old, new: new,  # noqa: ARG005
}


def update_half(name: str, addresses: Array, values: Array, mask: Array) -> Array:
    """Atomic `name` on 16-bit floats, lane after lane, each update rounded; returns the old values.

    Args:
        name: the member of `ir.ATOMIC_OP`, e.g. FADD.
        addresses: uint64, shape S; several lanes may name one address.
        values: float16 or bfloat16, shape S.
        mask: bool, shape S; masked lanes are not touched and return 0.
    """
    if name not in _UPDATES:
        raise TypeError(f"atomic {name} is not defined for {values.dtype}")
    update = _UPDATES[name]
    values, mask = (np.broadcast_to(array, addresses.shape) for array in (values, mask))
    old = np.zeros(addresses.shape, values.dtype)
    lanes = np.ones((1,), np.bool_)
    for index in np.ndindex(addresses.shape):
        if mask[index]:
            address = addresses[index].reshape(1)
            before = load(address, lanes, np.zeros((1,), values.dtype), values.dtype)
            after = np.asarray(update(before, values[index].reshape(1)), values.dtype)
            store(address, after, lanes, values.dtype)
            old[index] = before[0]
    return old
