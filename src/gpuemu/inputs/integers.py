"""Integer and bool inputs: uniform within bounds, so that they are valid indices by construction."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from gpuemu.dtypes import DType, torch_dtype
from gpuemu.errors import OpDefinitionError
from gpuemu.inputs.value_classes import Shape, Streams

DEFAULT_COUNT = 256
"""Number of values of an input that declares no `high`: all of an 8-bit dtype, small ones in a wider dtype."""


def make_integers(
    streams: Streams,
    shape: Shape,
    dtype: DType,
    bounds: tuple[float | None, float | None],
    sentinel: Any,
    where: str,
) -> torch.Tensor:
    """Integer elements, shape (prod(shape),), equally likely in low <= v < high.

    bounds: (low, high). `low` alone implies ``high = low + 256`` or the dtype's end, `high` alone ``low = 0``,
    neither implies int8's range, or uint8's for an unsigned dtype.
    sentinel: if not None, each element is the sentinel instead with probability 1/8; should that hit every
    element, the first one keeps its value.
    where: what error messages call the input.

    Raises:
        OpDefinitionError: the bounds are no integers, leave no value or exceed the dtype, or the sentinel does.
    """
    smallest = 0 if dtype.kind == "uint" else -1 << dtype.bits - 1
    limit = smallest + (1 << dtype.bits)
    low, high = _full_bounds(bounds, smallest, limit, where)
    if not smallest <= low or not high <= limit:
        raise OpDefinitionError(f"{where}: {low} <= v < {high} does not fit {dtype.name}")
    if sentinel is not None and not (isinstance(sentinel, int) and smallest <= sentinel < limit):
        raise OpDefinitionError(f"{where}: the sentinel {sentinel!r} is no {dtype.name}")
    count = math.prod(shape)
    if count == 0:  # an empty tensor needs no value: low == high == 0 is right for indices into nothing
        return torch.empty(0, dtype=torch_dtype(dtype.name))
    if low >= high:
        raise OpDefinitionError(f"{where} has no value in {low} <= v < {high}")
    values = streams("values").integers(count, low, high)
    if sentinel is not None:
        hit = streams("sentinel").draws16(count) < 1 << 13
        hit[0] &= not hit.all()
        values[hit] = sentinel
    return torch.from_numpy(values).to(torch_dtype(dtype.name), copy=True)


def _full_bounds(
    bounds: tuple[float | None, float | None], smallest: int, limit: int, where: str
) -> tuple[int, int]:
    for bound in bounds:
        if bound is not None and not float(bound).is_integer():
            raise OpDefinitionError(f"{where}: the bounds of an integer input must be integers, got {bound!r}")
    low, high = bounds
    if low is None:
        low = max(smallest, -DEFAULT_COUNT // 2) if high is None else 0
    if high is None:
        high = min(low + DEFAULT_COUNT, limit)
    return int(low), int(high)


def make_booleans(streams: Streams, shape: Shape) -> torch.Tensor:
    """Bool elements, shape (prod(shape),), fair coins: element i is bit i % 64 of word i // 64."""
    count = math.prod(shape)
    words = streams("values").words(-(-count // 64)).astype("<u8", copy=False)
    bits = np.unpackbits(words.view(np.uint8), count=count, bitorder="little")
    return torch.from_numpy(bits.view(np.bool_)).clone()
