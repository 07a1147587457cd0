"""The value classes' generators: how an input's numbers follow from random words, by exact operations only.

A generator takes the input's streams and its shape and yields float64 chunks: the elements in row-major
order. What it yields is exact, being built from integers below 2**53 scaled by powers of two; only the bounds
that an op declares may make `between` round, in an IEEE multiplication and an addition, the same way on every
machine. The caller rounds once, to the storage dtype. A row is a line along the last axis; a scalar is a row.

Every finite value is at most 256 in magnitude, also after rounding, so every float dtype holds all classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from gpuemu.inputs.random import Stream

Values = npt.NDArray[np.float64]
Shape = tuple[int, ...]
Streams = Callable[[str], Stream]
"""Gives the stream of one part of an input: for input x, ``streams("values")`` has the path ``x/values``."""
Generator = Callable[[Streams, Shape], Iterator[Values]]

# Streams are read in blocks, since long reads cost least per word, and worked on in chunks that stay in a
# core's second-level cache (rounding to bfloat16 takes five times as long on a whole array of 10**6).
_BLOCK = 1 << 20
_CHUNK = 1 << 14

_Draw = TypeVar("_Draw", bound=np.generic)


def _chunks(read: Callable[[int, int], npt.NDArray[_Draw]], count: int) -> Iterator[npt.NDArray[_Draw]]:
    """Yield the `count` draws of ``read(count, start)`` in order."""
    for start in range(0, count, _BLOCK):
        block = read(min(_BLOCK, count - start), start)
        for begin in range(0, block.size, _CHUNK):
            yield block[begin : begin + _CHUNK]


def between(streams: Streams, shape: Shape, low: float, high: float) -> Iterator[Values]:
    """Yield ``low + (high - low) * u``, u a multiple of 2**-32 in [0, 1): uniform in [low, high).

    Exact when ``low`` and ``high - low`` are integers below 2**20. Otherwise the result is rounded and may
    equal `high`.
    """
    scale, offset = np.float64((high - low) * 2.0**-32), np.float64(low)
    for draws in _chunks(streams("values").draws32, math.prod(shape)):
        values = draws.astype(np.float64)
        values *= scale
        values += offset
        yield values


def uniform(streams: Streams, shape: Shape) -> Iterator[Values]:
    """Yield values uniform in [-10, 10): multiples of 5 * 2**-30 of at most 34 bits.

    The rounding to a dtype of less precision may give 10 itself.
    """
    return between(streams, shape, -10.0, 10.0)


# A bell value is 2 * (a + b + c) less the mean of that: a uniform in [0, 1) with 32 bits, b and c with 16. In
# units of 2**-32 the mean is (2**32 - 1) + 2 * (2**32 - 2**16).
_BELL_MEAN = float(3 * 2**32 - 2**17 - 1) * 2.0**-32
_SECOND_QUARTER = np.uint64(0xFFFF0000)


def bell(streams: Streams, shape: Shape, centre: float = 0.0) -> Iterator[Values]:
    """Yield `centre` plus twice the centred sum of three uniforms, one word each element.

    A uniform on [0, 1) has the variance 1/12, so twice the sum of three has 4 * 3/12 = 1 without an irrational
    scale; the uniforms' granularity makes that 1 - (2**-31 + 2**-64) / 3. The mean is `centre`, exactly. Around
    0, a value is an odd multiple of 2**-32, hence not 0, and below 3 in magnitude: 34 bits, more than float32
    can hold, so all of its significand is in use. Around 100 it has 39 bits.
    """
    shift = np.float64(centre - _BELL_MEAN)  # exact: 41 bits
    for words in _chunks(streams("values").words, math.prod(shape)):
        # In units of 2**-32: b and c are the quarters of the word's low half, a is its high half.
        total = words << np.uint64(16)
        total &= _SECOND_QUARTER
        total += words & _SECOND_QUARTER
        total += words >> np.uint64(32)
        values = total.view(np.int64).astype(np.float64)  # signed integers convert faster
        values *= 2.0**-31
        values += shift
        yield values


def offset(streams: Streams, shape: Shape) -> Iterator[Values]:
    """Yield bell values around 100."""
    return bell(streams, shape, 100.0)


def negative(streams: Streams, shape: Shape) -> Iterator[Values]:
    """Yield bell values around -50."""
    return bell(streams, shape, -50.0)


def log_uniform(streams: Streams, shape: Shape) -> Iterator[Values]:
    """Yield ``±s * 2**e``: e an integer in [-16, 8), s a multiple of 2**-31 in [1, 2).

    The float64 is assembled from its fields (IEEE 754-2019, section 3.4). Rounding to few bits may give 2**8.
    """
    count = math.prod(shape)
    exponents = streams("exponents")
    biased = _chunks(lambda n, start: exponents.integers(n, 1023 - 16, 1023 + 8, start), count)
    for exponent, draws in zip(biased, _chunks(streams("values").draws32, count), strict=True):
        bits = draws.astype(np.uint64)
        sign = bits & np.uint64(1 << 31)
        bits ^= sign
        bits <<= np.uint64(21)  # 31 fraction bits to the top of 52
        bits |= sign << np.uint64(32)
        bits |= exponent.view(np.uint64) << np.uint64(52)
        yield bits.view(np.float64)


def small_integers(streams: Streams, shape: Shape) -> Iterator[Values]:
    """Yield integers from -2 to 2, equally likely."""
    stream = streams("values")
    for integers in _chunks(lambda n, start: stream.integers(n, -2, 3, start), math.prod(shape)):
        yield integers.astype(np.float64)


def impulse(streams: Streams, shape: Shape) -> Iterator[Values]:
    """Yield zeros with one `_away_from_zero` value a row, at an equally likely column."""
    values = np.zeros(math.prod(shape))
    if values.size:
        width = _width(shape)
        rows = values.size // width
        columns = streams("columns").integers(rows, 0, width)
        values[columns + np.arange(rows) * width] = _away_from_zero(streams, rows)
    for begin in range(0, values.size, _CHUNK):
        yield values[begin : begin + _CHUNK]


def all_equal(streams: Streams, shape: Shape) -> Iterator[Values]:
    """Yield one `_away_from_zero` value for every element."""
    count = math.prod(shape)
    if count:
        value = _away_from_zero(streams, 1)[0]
        for begin in range(0, count, _CHUNK):
            yield np.full(min(_CHUNK, count - begin), value)


def ones(streams: Streams, shape: Shape) -> Iterator[Values]:  # noqa: ARG001 - a generator's signature
    """Yield 1 for every element."""
    count = math.prod(shape)
    for begin in range(0, count, _CHUNK):
        yield np.ones(min(_CHUNK, count - begin))


def sparse_nonfinite(streams: Streams, shape: Shape) -> Iterator[Values]:
    """Yield bell values with one NaN, +inf or -inf (equally likely) in each row with probability 1/4.

    The column is equally likely too. Should that leave all rows finite, one equally likely row gets one, so
    that a tensor with elements always has a non-finite one.
    """
    count = math.prod(shape)
    if not count:
        return
    places, specials = _specials(streams, count // _width(shape), _width(shape))
    begin = 0
    for values in bell(streams, shape):
        first, last = np.searchsorted(places, [begin, begin + values.size])
        values[places[first:last] - begin] = specials[first:last]
        begin += values.size
        yield values


def _specials(streams: Streams, rows: int, width: int) -> tuple[npt.NDArray[np.int64], Values]:
    """Row-major indices of the non-finite values, ascending, and the values."""
    # One integer below 12 * width gives a column and one of twelve kinds, of which nine leave the row finite.
    kinds, columns = np.divmod(streams("specials").integers(rows, 0, 12 * width), width)
    chosen = np.flatnonzero(kinds < 3)
    if not chosen.size:
        kind, row = divmod(int(streams("fallback").integers(1, 0, 3 * rows)[0]), rows)
        kinds[row], chosen = kind, np.array([row])
    return chosen * width + columns[chosen], _NONFINITE[kinds[chosen]]


_NONFINITE = np.array([np.nan, np.inf, -np.inf])


def _width(shape: Shape) -> int:
    """The length of a row."""
    return shape[-1] if shape else 1


def _away_from_zero(streams: Streams, count: int) -> Values:
    """Bell values moved away from zero by 1/4: from 1/4 to 13/4 in magnitude, so that no dtype makes them 0."""
    values = np.concatenate(list(bell(streams, (count,))))
    values += np.copysign(0.25, values)  # exact: a multiple of 2**-32 below 4
    return values


VALUE_CLASS_GENERATORS: dict[str, Generator] = {
    "uniform": uniform,
    "bell": bell,
    "offset": offset,
    "negative": negative,
    "log_uniform": log_uniform,
    "small_integers": small_integers,
    "impulse": impulse,
    "all_equal": all_equal,
    "sparse_nonfinite": sparse_nonfinite,
    "ones": ones,
}
