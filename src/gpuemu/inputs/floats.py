"""Float inputs: a value class, or uniform within an op's own bounds, rounded once to the storage dtype."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import ml_dtypes
import numpy as np
import torch

from gpuemu.dtypes import DType, get_dtype, torch_dtype
from gpuemu.errors import OpDefinitionError, UsageError
from gpuemu.inputs.value_classes import VALUE_CLASS_GENERATORS, Generator, Shape, Streams, Values, between
from gpuemu.rounding import round_to

DEFAULT_WIDTH = 20.0
"""high - low of an input that declares only one of them: the width of the uniform class."""

_INTEGER_OF_BITS = {8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}


def make_floats(
    streams: Streams,
    shape: Shape,
    dtype: DType,
    bounds: tuple[float | None, float | None],
    value_class: str | None,
    where: str,
) -> torch.Tensor:
    """Float elements, shape (prod(shape),): of `value_class`, or uniform within `bounds` if it gives any.

    bounds: (low, high), low <= value < high also after the rounding; one alone implies the other at
    `DEFAULT_WIDTH`. where: what error messages call the input.

    Raises:
        OpDefinitionError: no number of `dtype` lies within the bounds.
        UsageError: a value class is needed and is None or unknown.
    """
    if value_class is not None or bounds == (None, None):
        generator = _generator(value_class, where)
    if bounds != (None, None):
        return round_chunks(_bounded(streams, shape, _full_bounds(*bounds, where), dtype, where), shape, dtype)
    return round_chunks(generator(streams, shape), shape, dtype)


def _generator(value_class: str | None, where: str) -> Generator:
    if value_class is None:
        raise UsageError(f"{where} needs a value class, of which the case names none")
    if value_class not in VALUE_CLASS_GENERATORS:
        known = ", ".join(VALUE_CLASS_GENERATORS)
        raise UsageError(f"{where}: unknown value class {value_class!r}; known: {known}")
    return VALUE_CLASS_GENERATORS[value_class]


def _full_bounds(low: float | None, high: float | None, where: str) -> tuple[float, float]:
    if low is None:
        low = math.nan if high is None else high - DEFAULT_WIDTH
    if high is None:
        high = low + DEFAULT_WIDTH
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise OpDefinitionError(f"{where} has no value in [{low}, {high}); need finite low < high")
    return float(low), float(high)


def _bounded(
    streams: Streams, shape: Shape, bounds: tuple[float, float], dtype: DType, where: str
) -> Iterator[Values]:
    smallest, largest = _storable_range(*bounds, dtype.name)
    if not smallest <= largest:
        raise OpDefinitionError(f"{where}: no {dtype.name} lies in [{bounds[0]}, {bounds[1]})")
    for values in between(streams, shape, *bounds):
        # Rounding is monotonic and keeps storable numbers, so what is clipped to two of them stays between.
        yield np.clip(values, smallest, largest, out=values)


@lru_cache(maxsize=256)
def _storable_range(low: float, high: float, dtype: str) -> tuple[float, float]:
    """The smallest number of `dtype` that is >= low, and the largest that is < high."""
    number = np.dtype(getattr(ml_dtypes, dtype, dtype)).type
    limit = get_dtype(dtype).max
    nearest_low, nearest_high = round_to(torch.tensor([low, high], dtype=torch.float64), dtype).tolist()
    smallest = nearest_low if nearest_low >= low else float(np.nextafter(number(nearest_low), number(limit)))
    largest = nearest_high if nearest_high < high else float(np.nextafter(number(nearest_high), number(-limit)))
    return smallest, largest


def round_chunks(chunks: Iterator[Values], shape: Shape, dtype: DType) -> torch.Tensor:
    """Round float64 chunks, together the elements of `shape`, to `dtype`; every NaN gets the same bits."""
    elements = torch.empty(math.prod(shape), dtype=torch_dtype(dtype.name))
    begin = 0
    for values in chunks:
        part = elements[begin : begin + values.size]
        part.copy_(round_to(torch.from_numpy(values), dtype.name))
        if np.isnan(values).any():
            # torch's conversion gives a NaN other bits in its vector loop than in that loop's remainder.
            part.view(_INTEGER_OF_BITS[dtype.bits]).masked_fill_(torch.isnan(part), _quiet_nan(dtype))
        begin += values.size
    return elements


def _quiet_nan(dtype: DType) -> int:
    """Bits of the positive quiet NaN without payload (IEEE 754-2019, 6.2.1); float8_e4m3fn has no other."""
    if not dtype.has_infinity:
        return (1 << dtype.bits - 1) - 1
    exponent = (1 << dtype.bits - 1) - (1 << dtype.precision - 1)
    return exponent | 1 << dtype.precision - 2
