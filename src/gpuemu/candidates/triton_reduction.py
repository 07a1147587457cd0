"""`tl.reduce` and `tl.associative_scan` for interpreted Triton kernels.

Triton's interpreter sums bfloat16 bit patterns, accumulates float16 in float32, replaces argmin and argmax by
NumPy's (which raise on an all-NaN row and treat NaN unlike the combine function), and calls any other combine
function once per element. Here the combine function itself is applied to whole blocks, in a balanced tree of
neighbours: the operands keep their order, so that an associative function need not be commutative, and every
step rounds in the element dtype, as one of the orders that a device may take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl

from gpuemu.candidates.triton_builder import SEMANTIC
from gpuemu.candidates.triton_numbers import BFLOAT16, Array
from gpuemu.candidates.triton_types import Handle, get_numpy_dtype

Combine = Callable[..., Any]
DeviceCall = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]

_HALVES = (np.dtype(np.float16), BFLOAT16)


class BlockConditionError(TypeError):
    """A block stood where only a scalar condition has a meaning."""


def to_tensor(data: Array, dtype: Any) -> Any:
    """Wrap an array as a Triton tensor of scalar type `dtype`: a block, or a scalar if it has no axes."""
    data = np.asarray(data).astype(get_numpy_dtype(dtype), copy=False)
    if data.ndim == 0:
        return tl.tensor(Handle(data.reshape(1), dtype), dtype)
    return tl.tensor(Handle(data, dtype), tl.block_type(dtype, list(data.shape)))


class Combiner:
    """A combine function applied to whole blocks, or lane by lane where it branches on its operands."""

    def __init__(self, function: Any, dtypes: Sequence[Any], call_device: DeviceCall) -> None:
        self._function = function
        self._dtypes = dtypes
        self._call_device = call_device

    def __call__(self, left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
        """Combine arrays of one shape, one pair per operand of the reduction."""
        try:
            return self._apply(left, right)
        except BlockConditionError:
            return self._apply_by_lane(left, right)

    def _apply(self, left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
        shape = left[0].shape
        operands = [to_tensor(x, d) for side in (left, right) for x, d in zip(side, self._dtypes, strict=True)]
        result = self._call_device(self._function, tuple(operands), {})
        results = list(result) if isinstance(result, (tuple, tl.tuple)) else [result]
        if len(results) != len(left):
            raise ValueError(f"the combine function returned {len(results)} values for {len(left)} operands")
        typed = [SEMANTIC.cast(SEMANTIC.to_tensor(r), d) for r, d in zip(results, self._dtypes, strict=True)]
        return [np.broadcast_to(t.handle.data if shape else t.handle.data.reshape(()), shape) for t in typed]

    def _apply_by_lane(self, left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
        outputs = [np.empty(x.shape, x.dtype) for x in left]
        for index in np.ndindex(left[0].shape):
            lane = self._apply([x[index].reshape(()) for x in left], [x[index].reshape(()) for x in right])
            for output, value in zip(outputs, lane, strict=True):
                output[index] = value
        return outputs


def _tree(arrays: list[Array], combine: Combiner) -> list[Array]:
    """Reduce axis 0 (a power of two, as every block dimension) by combining neighbours down to one row."""
    while arrays[0].shape[0] > 1:
        arrays = combine([x[0::2] for x in arrays], [x[1::2] for x in arrays])
    return [x[0] for x in arrays]


def _scan(arrays: list[Array], combine: Combiner) -> list[Array]:
    """Inclusive scan along axis 0: scan the pairs, then complete the rows between them.

    Source: R. E. Ladner and M. J. Fischer, "Parallel prefix computation", Journal of the ACM 27(4), 1980.
    """
    if arrays[0].shape[0] == 1:
        return arrays
    odd = _scan(combine([x[0::2] for x in arrays], [x[1::2] for x in arrays]), combine)
    # Row 0 has no predecessor; it is combined with itself to keep a power of two, then put back.
    before = [np.concatenate([x[:1], y[:-1]]) for x, y in zip(arrays, odd, strict=True)]
    even = combine(before, [x[0::2] for x in arrays])
    scanned = [np.empty_like(x) for x in arrays]
    for out, first, x, y in zip(scanned, arrays, even, odd, strict=True):
        out[0::2], out[1::2] = x, y
        out[0] = first[0]
    return scanned


def _unwrap(value: Any) -> Any:
    return value.value if isinstance(value, tl.constexpr) else value


def _normalise(operands: Any, axis: Any) -> tuple[list[Any], int | None]:
    several = isinstance(operands, (tuple, tl.tuple))
    tensors = [SEMANTIC.to_tensor(t) for t in (operands if several else (operands,))]
    axis, rank = _unwrap(axis), len(tensors[0].shape)
    if axis is None:
        return tensors, None
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of bounds for a block of {rank} dimensions")
    return tensors, axis % rank


def _shortcut(combine: Any, data: Array) -> Callable[[Array], Array] | None:
    """NumPy's own reduction of axis 0 where its rounding and NaN rules are those of the combine function."""
    standard = tl.standard
    if data.dtype.kind in "iu" and combine is standard._sum_combine:
        return lambda x: np.sum(x, axis=0, dtype=x.dtype)
    if data.dtype in _HALVES or data.dtype.kind == "b":
        return None
    if combine is standard._sum_combine:
        return lambda x: np.sum(x, axis=0)
    if combine is standard._elementwise_max:
        return lambda x: np.fmax.reduce(x, axis=0)
    if combine is standard._elementwise_min:
        return lambda x: np.fmin.reduce(x, axis=0)
    return None


def reduce(operands: Any, axis: Any, combine: Any, keep_dims: Any, call_device: DeviceCall) -> Any:
    """`tl.reduce`: combine the lanes along `axis` (all lanes if None)."""
    tensors, axis = _normalise(operands, axis)
    shape = tensors[0].handle.data.shape
    dtypes = [t.dtype for t in tensors]
    data = [t.handle.data for t in tensors]
    rows = [x.reshape(-1) if axis is None else np.moveaxis(x, axis, 0) for x in data]
    shortcut = _shortcut(combine, rows[0]) if len(rows) == 1 and not dtypes[0].is_fp8() else None
    reduced = [shortcut(rows[0])] if shortcut else _tree(rows, Combiner(combine, dtypes, call_device))
    if _unwrap(keep_dims):
        kept = tuple(1 if axis is None or i == axis else size for i, size in enumerate(shape))
        reduced = [x.reshape(kept) for x in reduced]
    results = tuple(to_tensor(x, d) for x, d in zip(reduced, dtypes, strict=True))
    return results if isinstance(operands, (tuple, tl.tuple)) else results[0]


def scan(operands: Any, axis: Any, combine: Any, reverse: Any, call_device: DeviceCall) -> Any:
    """`tl.associative_scan`: the running combination of the lanes along `axis`."""
    tensors, axis = _normalise(operands, axis)
    if axis is None:
        raise ValueError("a scan needs an axis")
    dtypes = [t.dtype for t in tensors]
    rows = [np.moveaxis(t.handle.data, axis, 0) for t in tensors]
    if _unwrap(reverse):
        rows = [x[::-1] for x in rows]
    scanned = _scan(rows, Combiner(combine, dtypes, call_device))
    if _unwrap(reverse):
        scanned = [x[::-1] for x in scanned]
    back = [np.ascontiguousarray(np.moveaxis(x, 0, axis)) for x in scanned]
    results = tuple(to_tensor(x, d) for x, d in zip(back, dtypes, strict=True))
    return results if isinstance(operands, (tuple, tl.tuple)) else results[0]
