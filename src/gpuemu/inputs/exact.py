"""Inputs on which every order of summation gives the same bits (ORACLE.md section 4, exact inputs).

Integers up to A in magnitude, K terms a sum: all partial sums are integers of at most K A^d (d factors), which
an accumulator of p bits holds exactly while that is at most 2^(p - 1). A is 2, else 1; where even that is too
much, rows keep so few non-zero elements that it is not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpuemu.dtypes import get_dtype
from gpuemu.inputs.value_classes import Shape, Streams, Values
from gpuemu.model.case import Case
from gpuemu.model.op import Op
from gpuemu.model.profile import get_profile

EXACT = "exact_integers"
AMPLITUDES = (2, 1)
_CHUNK = 1 << 14


@dataclass(frozen=True)
class ExactForm:
    """amplitude: largest magnitude A. nonzeros: how many elements of a row may differ from zero; None: all."""

    amplitude: int
    nonzeros: int | None


def exact_form(op: Op, case: Case) -> ExactForm:
    """The largest integers that the op's accumulators sum exactly in this case."""
    quanta = accumulator_quanta(op, case.dtype)
    shapes = [
        op.shape_of(name, case.dims, case.params)
        for name, tensor in op.tensors.items()
        if tensor.takes_value_class
    ]
    factors = len(shapes)
    batch = math.prod(max(case.dims[name], 1) for name, dim in op.domains.items() if dim.batch)
    # Whatever is summed: no sum has more terms than the largest input has elements beside its batch.
    terms = max((math.prod(shape) // (batch or 1) for shape in shapes), default=1) or 1
    for amplitude in AMPLITUDES:
        if terms * amplitude**factors <= quanta:
            return ExactForm(amplitude, None)
    return ExactForm(1, max(1, int(quanta)))


def accumulator_quanta(op: Op, dtype: str) -> float:
    """Sums of magnitudes up to this many units are exact: 2^(p - 1) of the accumulator's p bits."""
    storage = get_dtype(dtype)
    rung = get_profile(op.contract.profile_for(dtype))
    accumulator = get_dtype(op.contract.accumulate)
    roundoff = accumulator.unit_roundoff if accumulator.is_float else 2.0**-31
    if rung.eager and storage.is_float:
        roundoff = max(roundoff, storage.unit_roundoff)
    return 0.5 / max(roundoff, rung.accumulator_roundoff or 0.0, get_dtype("float32").unit_roundoff)


def exact_integers(streams: Streams, shape: Shape, form: ExactForm) -> Iterator[Values]:
    """Yield integers in [-A, A], equally likely; a row's non-zero ones lie in a window at a random place."""
    count, width = math.prod(shape), shape[-1] if shape else 1
    stream = streams("values")
    starts = None
    if count and form.nonzeros is not None and form.nonzeros < width:
        starts = streams("columns").integers(count // width, 0, width)
    for begin in range(0, count, _CHUNK):
        size = min(_CHUNK, count - begin)
        values = stream.integers(size, -form.amplitude, form.amplitude + 1, begin).astype(np.float64)
        if starts is not None and form.nonzeros is not None:
            rows, columns = np.divmod(np.arange(begin, begin + size), width)
            values[(columns - starts[rows]) % width >= form.nonzeros] = 0.0
        yield values
