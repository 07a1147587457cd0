"""Small Triton kernels shared by the interpreter's tests: one operation each, over flat arrays."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def unary(x, y, OP: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    value = tl.load(x + offsets)
    if OP == "neg":
        result = -value
    elif OP == "abs":
        result = tl.abs(value)
    elif OP == "copy":
        result = value
    elif OP == "square":
        result = value * value
    elif OP == "add_one":
        result = value + 1.0
    elif OP == "half":
        result = 0.5 * value
    elif OP == "where":
        result = tl.where(value > 0.0, value, 0.0)
    elif OP == "full":
        result = tl.full([BLOCK], 0.1, value.dtype)
    elif OP == "zeros":
        result = tl.zeros([BLOCK], value.dtype)
    elif OP == "clamp":
        result = tl.clamp(value, -1.5, 2.5)
    else:
        tl.static_assert(False)
    tl.store(y + offsets, result)


@triton.jit
def binary(x, y, z, OP: tl.constexpr, BLOCK: tl.constexpr):  # noqa: PLR0912
    offsets = tl.arange(0, BLOCK)
    left = tl.load(x + offsets)
    right = tl.load(y + offsets)
    if OP == "add":
        result = left + right
    elif OP == "sub":
        result = left - right
    elif OP == "mul":
        result = left * right
    elif OP == "div":
        result = (left / right).to(left.dtype)
    elif OP == "minimum":
        result = tl.minimum(left, right)
    elif OP == "maximum":
        result = tl.maximum(left, right)
    elif OP == "maximum_nan":
        result = tl.maximum(left, right, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "lt":
        result = left < right
    elif OP == "le":
        result = left <= right
    elif OP == "gt":
        result = left > right
    elif OP == "ge":
        result = left >= right
    elif OP == "eq":
        result = left == right
    elif OP == "ne":
        result = left != right
    elif OP == "lt_as_float":
        result = (left < right).to(tl.float32)
    elif OP == "select":
        result = tl.where(left < right, left, right)
    elif OP == "equal_and_ordered":
        result = (left == right) & (left <= right)
    else:
        tl.static_assert(False)
    tl.store(z + offsets, result)


@triton.jit
def fused(x, y, z, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.fma(tl.load(x + offsets), tl.load(y + offsets), tl.load(z + offsets)))


@triton.jit
def cast(x, y, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(y + offsets, tl.load(x + offsets).to(y.dtype.element_ty))


@triton.jit
def cast_toward_zero(x, y, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    value = tl.load(x + offsets)
    tl.store(y + offsets, value.to(y.dtype.element_ty, fp_downcast_rounding="rtz"))


@triton.jit
def implicit_store(x, y, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(y + offsets, tl.load(x + offsets))


@triton.jit
def bitcast(x, y, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(y + offsets, tl.load(x + offsets).to(y.dtype.element_ty, bitcast=True))


@triton.jit
def _keep_larger(a, b):
    return tl.where(a > b, a, b)


@triton.jit
def _affine(scale1, shift1, scale2, shift2):
    # Composition of x -> scale*x + shift: associative, not commutative.
    return scale1 * scale2, scale2 * shift1 + shift2


@triton.jit
def _branching_max(a, b):
    result = a
    if b > a:
        result = b
    return result


@triton.jit
def reduce_rows(x, y, OP: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    rows = tl.arange(0, R)
    value = tl.load(x + rows[:, None] * C + tl.arange(0, C)[None, :])
    if OP == "sum":
        result = tl.sum(value, axis=1)
    elif OP == "sum_all":
        result = tl.sum(value) + tl.zeros([R], value.dtype)
    elif OP == "sum_negative_axis":
        result = tl.sum(value, axis=-1)
    elif OP == "max":
        result = tl.max(value, axis=1)
    elif OP == "min":
        result = tl.min(value, axis=1)
    elif OP == "argmax":
        result = tl.argmax(value, axis=1)
    elif OP == "argmin":
        result = tl.argmin(value, axis=1)
    elif OP == "keep_larger":
        result = tl.reduce(value, -1, _keep_larger)
    elif OP == "branching":
        result = tl.reduce(value, 1, _branching_max)
    elif OP == "affine":
        result, _ = tl.reduce((value, value), 1, _affine)
        _, result = tl.reduce((value, value), 1, _affine)
    else:
        tl.static_assert(False)
    tl.store(y + rows, result)


@triton.jit
def scan_rows(x, y, OP: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    offsets = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    value = tl.load(x + offsets)
    if OP == "cumsum":
        result = tl.cumsum(value, axis=1)
    elif OP == "cumsum_reverse":
        result = tl.cumsum(value, axis=1, reverse=True)
    elif OP == "cumprod":
        result = tl.cumprod(value, axis=1)
    elif OP == "affine":
        _, result = tl.associative_scan((value, value), 1, _affine)
    elif OP == "sort":
        result = tl.sort(value)
    elif OP == "flip":
        result = tl.flip(value, 1)
    else:
        tl.static_assert(False)
    tl.store(y + offsets, result)


@triton.jit
def dot(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(a + m[:, None] * K + k[None, :])
    right = tl.load(b + k[:, None] * N + n[None, :])
    tl.store(c + m[:, None] * N + n[None, :], tl.dot(left, right, input_precision="ieee"))


@triton.jit
def atomic(x, targets, y, old, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < n
    target = y + tl.load(targets + offsets)
    value = tl.load(x + offsets)
    if OP == "add":
        before = tl.atomic_add(target, value, mask=mask)
    elif OP == "xchg":
        before = tl.atomic_xchg(target, value, mask=mask)
    else:
        tl.static_assert(False)
    tl.store(old + offsets, before, mask=mask)


@triton.jit
def masked_copy(x, y, n, WITH_OTHER: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    if WITH_OTHER:
        value = tl.load(x + offsets, mask=offsets < n, other=0.0)
    else:
        value = tl.load(x + offsets, mask=offsets < n)
    tl.store(y + offsets, value)
