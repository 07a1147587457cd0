"""The op builder of Triton's interpreter, repaired.

Triton's interpreter keeps bfloat16 values as uint16 bit patterns and computes on the patterns. Here a bfloat16
block is an array of `ml_dtypes.bfloat16`: NumPy's own operators then compute through float32 and round to
nearest even, and an operation that has no bfloat16 meaning raises instead of computing on bits. Only loads,
stores and atomics see the patterns (`triton_memory`). Every override is at the place that all operators of a
kind share, so nothing is repaired op by op.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import triton.language as tl
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter

from gpuemu.candidates import triton_libdevice, triton_memory
from gpuemu.candidates.triton_guard import ArgumentPointer, LaunchGuard
from gpuemu.candidates.triton_numbers import BFLOAT16, FLOAT32, FLOAT64, Array, fma
from gpuemu.candidates.triton_types import Handle, convert, get_numpy_dtype, to_values
from gpuemu.errors import CandidateRefusedError

_COMPARISONS = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)


def _refuse_float8(handle: Any) -> None:
    if handle.dtype.scalar.is_fp8():
        raise TypeError(
            f"{handle.dtype.scalar} has no arithmetic in Triton: convert to fp16, bf16 or fp32 before computing"
        )


class RepairedBuilder(interpreter.InterpreterBuilder):  # type: ignore[misc]
    """Triton's interpreter builder with sound numbers; grid state and shape operations are inherited."""

    def __init__(self) -> None:
        super().__init__()
        # Off: Triton computes every integer operation a second time in int64 for an assertion that it then
        # leaves out, since `debug` is off. This is half of the time of a program full of index arithmetic.
        self.options = interpreter.InterpreterOptions(sanitize_overflow=False)
        self.grid_idx = (0, 0, 0)
        self.grid_dim = (1, 1, 1)
        self.guard: LaunchGuard | None = None  # of the launch that runs, if it is watched
        self.has_fill = False  # set by RepairedSemantic.load
        # Values of masked lanes of a load without `other`; Triton's interpreter gives zeros.
        self.fill_masked: Callable[[np.dtype[Any], tuple[int, ...]], Array] = lambda dtype, shape: np.zeros(
            shape, dtype
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("create_"):
            raise CandidateRefusedError(f"Triton's interpreter does not implement {name} (CPU tier)")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # constants and casts

    def get_bf16(self, value: float) -> Any:
        # The compiler's builder takes a C float, so a constant is rounded to float32 first.
        return Handle(np.array([value], np.float32).astype(BFLOAT16), tl.bfloat16)

    def cast_impl(self, src: Any, dst_type: Any) -> Any:
        return Handle(convert(src.data, src.dtype.scalar, dst_type.scalar), dst_type.scalar)

    def create_fp_to_fp(self, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        toward_zero = rounding_mode == interpreter._ir.ROUNDING_MODE.RTZ
        return Handle(convert(src.data, src.dtype.scalar, dst_type.scalar, toward_zero), dst_type.scalar)

    # elementwise

    def binary_op(self, lhs: Any, rhs: Any, op: Any) -> Any:
        left, right = lhs.data, rhs.data
        if op in _COMPARISONS:
            left, right = to_values(left, lhs.dtype.scalar), to_values(right, rhs.dtype.scalar)
        else:
            _refuse_float8(lhs)
        if left.dtype == np.bool_ and right.dtype == np.bool_ and op not in (np.left_shift, np.right_shift):
            # int1 is a one-bit integer that wraps; NumPy's booleans saturate and cannot be subtracted.
            return Handle((op(left.astype(np.int8), right.astype(np.int8)) & 1).astype(np.bool_), tl.int1)
        output = op(left, right)
        if output.dtype == np.bool_:  # a comparison: Triton's interpreter gives it the operands' type
            return Handle(output, tl.int1)
        dtype = lhs.dtype.scalar
        return Handle(output.astype(get_numpy_dtype(dtype), copy=False), dtype)

    def ternary_op(self, lhs: Any, rhs: Any, other: Any, op: Any) -> Any:
        dtype = other.dtype.scalar
        if isinstance(dtype, ArgumentPointer) and rhs.dtype.scalar is not dtype:
            dtype = tl.pointer_type(
                dtype.element_ty, dtype.address_space, dtype.const
            )  # of two arguments: of none
        output = op(lhs.data, rhs.data, other.data)
        return Handle(output.astype(get_numpy_dtype(dtype), copy=False), dtype)

    def unary_op(self, arg: Any, op: Any) -> Any:
        _refuse_float8(arg)
        return Handle(op(arg.data).astype(arg.data.dtype, copy=False), arg.dtype.scalar)

    def create_clampf(self, arg: Any, lo: Any, hi: Any, propagate_nans: Any) -> Any:
        keep_nan = propagate_nans != interpreter._ir.PROPAGATE_NAN.NONE
        least, most = (np.minimum, np.maximum) if keep_nan else (np.fmin, np.fmax)
        return self.binary_op(self.binary_op(arg, lo, most), hi, least)

    # Triton 3.6 lets these propagate NaN; the compiled `maxnum`/`minnum` return the number.
    def create_minnumf(self, lhs: Any, rhs: Any) -> Any:
        return self.binary_op(lhs, rhs, np.fmin)

    def create_maxnumf(self, lhs: Any, rhs: Any) -> Any:
        return self.binary_op(lhs, rhs, np.fmax)

    def create_fma(self, x: Any, y: Any, z: Any) -> Any:
        _refuse_float8(z)
        return Handle(fma(x.data, y.data, z.data), z.dtype.scalar)

    def create_ashr(self, lhs: Any, rhs: Any) -> Any:
        # Triton 3.6 changed the operands in place; the shift of a signed value keeps its sign.
        signed = np.dtype(f"i{lhs.data.dtype.itemsize}")
        shifted = np.right_shift(lhs.data.astype(signed), rhs.data.astype(signed))
        return Handle(shifted.astype(get_numpy_dtype(lhs.dtype.scalar)), lhs.dtype.scalar)

    def create_umulhi(self, lhs: Any, rhs: Any) -> Any:
        high = triton_libdevice.multiply_high(lhs.data, rhs.data)
        return Handle(high, lhs.dtype.scalar)

    def create_extern_elementwise(
        self, _library: str, _path: str, symbol: str, args: Any, ret_type: Any, _is_pure: bool
    ) -> Any:
        result = triton_libdevice.call(symbol, [arg.data for arg in args])
        return Handle(result.astype(get_numpy_dtype(ret_type), copy=False), ret_type.scalar)

    def create_inline_asm(self, *_: Any, **__: Any) -> NoReturn:
        raise CandidateRefusedError("tl.inline_asm_elementwise is not available on the CPU tier")

    # dot

    def create_dot(self, a: Any, b: Any, d: Any, *_precision: Any) -> Any:
        if a.dtype.is_floating():
            wide = FLOAT64 if d.data.dtype == FLOAT64 else FLOAT32
            left, right = (to_values(x.data, x.dtype.scalar).astype(wide) for x in (a, b))
            product = np.matmul(left, right)
        else:
            product = np.matmul(a.data, b.data, dtype=d.data.dtype)
        return Handle((product.astype(d.data.dtype) + d.data).astype(d.data.dtype), d.dtype.scalar)

    # memory

    def create_bitcast(self, src: Any, dst_type: Any) -> Any:
        result = super().create_bitcast(src, dst_type)
        if isinstance(src.dtype, ArgumentPointer) and isinstance(result.dtype, tl.pointer_type):
            result.dtype = src.dtype.point_to(result.dtype.element_ty)
        return result

    def create_int_to_ptr(self, src: Any, dst_type: Any) -> Any:
        if self.guard is not None:
            self.guard.is_open = True
        return super().create_bitcast(src, dst_type)

    def _find_outside(self, action: str, pointer: Any, mask: Array) -> Array | None:
        """Active lanes that no argument of a watched launch covers; they must not be touched."""
        return None if self.guard is None else self.guard.find_outside(action, pointer, mask, self.grid_idx)

    def _fill_masked(self, element: Any, mask: Array, shape: tuple[int, ...]) -> Array:
        """Values of the masked lanes of a load without `other`."""
        dtype = get_numpy_dtype(element)
        if self.has_fill:  # RepairedSemantic: an `other` of 0 that Triton's `if other` took for none
            return np.zeros(shape, dtype)
        if self.guard is not None:
            return self.guard.fill_masked(element, mask, shape)
        return self.fill_masked(dtype, shape)

    def create_masked_load(self, ptrs: Any, mask: Any, other: Any, *_cache: Any, **_hints: Any) -> Any:
        element = ptrs.get_element_ty()
        lanes = _array(mask)
        fill = self._fill_masked(element, lanes, ptrs.data.shape) if other is None else other.data
        outside = self._find_outside("reads", ptrs, lanes)
        if outside is not None:
            lanes = lanes & ~outside
        loaded = Handle(triton_memory.load(ptrs.data, lanes, fill, get_numpy_dtype(element)), element)
        if self.guard is not None and isinstance(element, tl.pointer_type):
            self.guard.is_open = True  # a table of pointers
        return self._poisoned(loaded, outside)

    def create_masked_store(self, ptrs: Any, value: Any, mask: Any, *_cache: Any) -> None:
        lanes = _array(mask)
        outside = self._find_outside("writes", ptrs, lanes)
        if outside is not None:
            lanes = lanes & ~outside
        triton_memory.store(ptrs.data, value.data, lanes, get_numpy_dtype(ptrs.get_element_ty()))

    def create_atomic_rmw(self, operation: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        outside = self._find_outside("updates", ptr, mask.data)
        if outside is not None:
            mask = Handle(mask.data & ~outside, tl.int1)
        if val.data.dtype in (BFLOAT16, np.dtype(np.float16)):
            name = str(operation).rsplit(".", maxsplit=1)[-1]
            old = triton_memory.update_half(name, ptr.data, val.data, mask.data)
            return self._poisoned(Handle(old, val.dtype.scalar), outside)
        result = super().create_atomic_rmw(operation, ptr, val, mask, sem, scope)
        return self._poisoned(result, outside)

    def create_atomic_cas(self, ptr: Any, cmp: Any, val: Any, sem: Any, scope: Any) -> Any:
        outside = self._find_outside("updates", ptr, np.ones(ptr.data.shape, np.bool_))
        if outside is None:
            return self._compare_and_swap(ptr, cmp, val, sem, scope)
        old = Handle(np.zeros(ptr.data.shape, cmp.data.dtype), cmp.dtype.scalar)
        if not outside.all():
            kept = ~outside
            places, wanted, new = (Handle(x.data[kept], x.dtype.scalar) for x in (ptr, cmp, val))
            old.data[kept] = self._compare_and_swap(places, wanted, new, sem, scope).data
        return self._poisoned(old, outside)

    def _compare_and_swap(self, ptr: Any, cmp: Any, val: Any, sem: Any, scope: Any) -> Any:
        dtype = cmp.data.dtype
        if dtype.itemsize != 2:
            return super().create_atomic_cas(ptr, cmp, val, sem, scope)
        bits = [Handle(x.data.view(np.uint16), tl.uint16) for x in (cmp, val)]
        old = super().create_atomic_cas(ptr, bits[0], bits[1], sem, scope)
        return Handle(old.data.view(dtype), cmp.dtype.scalar)

    def create_atomic_poll(self, ptr: Any, expected: Any, *rest: Any) -> Any:
        outside = self._find_outside("reads", ptr, np.ones(ptr.data.shape, np.bool_))
        if outside is None:
            return super().create_atomic_poll(ptr, expected, *rest)
        return Handle(np.zeros(ptr.data.shape, np.bool_), tl.int1)  # poison never matches: no use in waiting

    def create_gather(self, src: Any, indices: Any, axis: int) -> Any:
        if self.guard is None:
            return super().create_gather(src, indices, axis)
        # An index from a poisoned lane must not raise: on a device the lane is as undefined as its index.
        outside = (indices.data < 0) | (indices.data >= src.data.shape[axis])
        inside = Handle(np.where(outside, 0, indices.data), indices.dtype)
        return self._poisoned(super().create_gather(src, inside, axis), outside)

    def _poisoned(self, values: Any, lanes: Array | None) -> Any:
        """`values` with poison in these lanes."""
        if lanes is None or self.guard is None or not lanes.any():
            return values
        poison = self.guard.poison(values.dtype.scalar, values.data.shape)
        return Handle(np.where(lanes, poison, values.data), values.dtype)


def _array(mask: Any) -> Array:
    # Block pointers of Triton 3.6 hand over a bare array.
    return mask if isinstance(mask, np.ndarray) else mask.data


class RepairedSemantic(TritonSemantic):  # type: ignore[misc]
    """Triton's semantic layer; a load notes whether it was given a fill value.

    Triton tests `if other`, which in the interpreter is the truth of the *value*: a scalar or one-element
    fill of 0 counts as none. That is harmless while masked lanes read 0, and wrong once they are poisoned.
    """

    def load(self, ptr: Any, mask: Any, other: Any, *rest: Any, **options: Any) -> Any:
        self.builder.has_fill = other is not None
        try:
            return super().load(ptr, mask, other, *rest, **options)
        finally:
            self.builder.has_fill = False


BUILDER = RepairedBuilder()
SEMANTIC = RepairedSemantic(BUILDER)
