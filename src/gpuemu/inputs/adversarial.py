"""Hard value classes that depend on the storage dtype: as published, and a sparse one that keeps the evidence.

Dense special values erase what they should bring out: with a NaN in every row, wrong and right kernels return
the same NaN (PUBLISHED.md, P3). The sparse class puts at most one into a quarter of the rows (ORACLE.md section
3). Products with the dtype's limits are correctly rounded in float64, hence the same on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from gpuemu.dtypes import DType
from gpuemu.inputs.value_classes import Shape, Streams, Values

_CHUNK = 1 << 14
_SPECIALS = np.array([np.nan, np.inf, -np.inf])
INJECTED_SHARE = 20  # one element in 20 is NaN, an infinity or 0 (PUBLISHED.md, P3: 5 %)
SPECIAL_ROWS = 4  # one row in 4 gets a special value
WIDE = 1e3
PLAIN = 10.0

Generator = Callable[[Streams, Shape, DType], Iterator[Values]]


def nan_injected(streams: Streams, shape: Shape, dtype: DType) -> Iterator[Values]:
    """Yield uniform values in [-10, 10), of which 5 % are NaN, +inf, -inf or 0, equally likely."""
    del dtype
    for begin, size in _chunks(math.prod(shape)):
        values = _signed(streams, begin, size) * PLAIN
        kinds = streams("kinds").integers(size, 0, 4 * INJECTED_SHARE, begin)
        values[kinds == 3] = 0.0
        for kind, special in enumerate(_SPECIALS):
            values[kinds == kind] = special
        yield values


def adversarial(streams: Streams, shape: Shape, dtype: DType) -> Iterator[Values]:
    """Yield equal parts of 0, magnitudes around the smallest normal number, up to max/10, up to 1e3, and of NaN
    and infinities."""
    scales = np.array([0.0, 2.0 * dtype.smallest_normal, dtype.max / 10.0, min(WIDE, dtype.max)])
    for begin, size in _chunks(math.prod(shape)):
        kinds = streams("kinds").integers(size, 0, 15, begin)
        values = _signed(streams, begin, size) * scales[np.minimum(kinds // 3, 3)]
        for kind, special in enumerate(_SPECIALS):
            values[kinds == 12 + kind] = special
        yield values


def sparse_adversarial(streams: Streams, shape: Shape, dtype: DType) -> Iterator[Values]:
    """Yield rows of one magnitude each: 0, subnormal, up to max/10, up to 1e3, up to 10; a special value in a
    quarter of them, at one equally likely place."""
    limits = [0.0, dtype.smallest_normal, dtype.max / 10.0, min(WIDE, dtype.max), min(PLAIN, dtype.max)]
    scales = np.array(limits)
    count, width = math.prod(shape), shape[-1] if shape else 1
    if not count:
        return
    rows = count // width
    magnitudes = streams("magnitudes").integers(rows, 0, len(limits))
    kinds, columns = np.divmod(streams("specials").integers(rows, 0, 3 * SPECIAL_ROWS * width), width)
    for begin, size in _chunks(count):
        row, column = np.divmod(np.arange(begin, begin + size), width)
        values = _signed(streams, begin, size) * scales[magnitudes[row]]
        special = (columns[row] == column) & (kinds[row] < len(_SPECIALS))
        values[special] = _SPECIALS[kinds[row[special]]]
        yield values


def _chunks(count: int) -> Iterator[tuple[int, int]]:
    return ((begin, min(_CHUNK, count - begin)) for begin in range(0, count, _CHUNK))


def _signed(streams: Streams, begin: int, size: int) -> Values:
    """Multiples of 2^-31 in [-1, 1), equally likely."""
    draws = streams("values").draws32(size, begin).astype(np.float64)
    return np.asarray(draws * 2.0**-31 - 1.0)


ADVERSARIAL_GENERATORS: dict[str, Generator] = {
    "nan_injected": nan_injected,
    "adversarial": adversarial,
    "sparse_adversarial": sparse_adversarial,
}
