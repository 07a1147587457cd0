"""Triton kernels that loop over a row tile by tile, whatever its length; the wrappers are at the end.

Imported by path only (`tilings`), once per tiling: BLOCK is set after the import.
"""

import torch
import triton
import triton.language as tl

BLOCK = 64


@triton.jit
def _softmax_kernel(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * columns
    offsets = tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    # Each lane keeps a running maximum and denominator of its own; they are merged once, at the end.
    for begin in range(0, columns, BLOCK):
        mask = begin + offsets < columns
        x = tl.load(x_ptr + start + begin + offsets, mask=mask, other=float("-inf")).to(tl.float32)
        new = tl.maximum(largest, x)
        shift = tl.where(new == float("-inf"), 0.0, new)
        total = total * tl.exp(largest - shift) + tl.exp(x - shift)
        largest = new
    row_largest = tl.max(largest, axis=0)
    denominator = tl.sum(total * tl.exp(largest - row_largest), axis=0)
    for begin in range(0, columns, BLOCK):
        mask = begin + offsets < columns
        x = tl.load(x_ptr + start + begin + offsets, mask=mask, other=float("-inf")).to(tl.float32)
        y = tl.exp(x - row_largest) / denominator
        tl.store(y_ptr + start + begin + offsets, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _norm_kernel(
    x_ptr, w_ptr, b_ptr, y_ptr, columns, divisor, eps,
    CENTRED: tl.constexpr, HAS_WEIGHT: tl.constexpr, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    start = tl.program_id(0).to(tl.int64) * columns
    offsets = tl.arange(0, BLOCK)
    mean = 0.0
    if CENTRED:
        total = tl.zeros((BLOCK,), tl.float32)
        for begin in range(0, columns, BLOCK):
            mask = begin + offsets < columns
            total += tl.load(x_ptr + start + begin + offsets, mask=mask, other=0.0).to(tl.float32)
        mean = tl.sum(total, axis=0) / columns
    squares = tl.zeros((BLOCK,), tl.float32)
    for begin in range(0, columns, BLOCK):
        mask = begin + offsets < columns
        x = tl.load(x_ptr + start + begin + offsets, mask=mask, other=0.0).to(tl.float32)
        x = tl.where(mask, x - mean, 0.0)
        squares += x * x
    scale = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / divisor + eps)
    for begin in range(0, columns, BLOCK):
        mask = begin + offsets < columns
        x = tl.load(x_ptr + start + begin + offsets, mask=mask, other=0.0).to(tl.float32)
        y = (x - mean) * scale
        if HAS_WEIGHT:
            y = y * tl.load(w_ptr + begin + offsets, mask=mask, other=0.0).to(tl.float32)
        if HAS_BIAS:
            y = y + tl.load(b_ptr + begin + offsets, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + start + begin + offsets, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _gated_kernel(a_ptr, b_ptr, y_ptr, elements, GELU: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < elements
    a = tl.load(a_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    if GELU:  # noqa: SIM108 - a constexpr branch
        a = a / (1.0 + tl.exp(-1.5957691216057308 * (a + 0.044715 * a * a * a)))
    else:
        a = a / (1.0 + tl.exp(-a))
    tl.store(y_ptr + offsets, (a * b).to(y_ptr.dtype.element_ty), mask=mask)


def _rows(x):
    x = x.contiguous()
    columns = x.shape[-1]
    return x, torch.empty_like(x), columns, x.numel() // max(columns, 1)


def softmax(x):
    x, y, columns, rows = _rows(x)
    if rows:
        _softmax_kernel[(rows,)](x, y, columns, BLOCK=BLOCK)
    return y


def _normalise(x, w, b, divisor, eps, centred):
    x, y, columns, rows = _rows(x)
    w = None if w is None else w.contiguous()
    b = None if b is None else b.contiguous()
    if rows:
        _norm_kernel[(rows,)](
            x, x if w is None else w, x if b is None else b, y, columns, float(divisor), eps,
            CENTRED=centred, HAS_WEIGHT=w is not None, HAS_BIAS=b is not None, BLOCK=BLOCK,
        )  # fmt: skip
    return y


def layernorm(x):
    return _normalise(x, None, None, x.shape[-1], 1e-5, centred=True)


def rmsnorm(x):
    return _normalise(x, None, None, x.shape[-1], 1e-5, centred=False)


def l2norm(x):
    return _normalise(x, None, None, 1, 1e-12, centred=False)


def rms_norm(x, w, eps):
    return _normalise(x, w, None, x.shape[-1], eps, centred=False)


def layer_norm(x, w, b, eps):
    return _normalise(x, w, b, x.shape[-1], eps, centred=True)


def _gated(a, b, gelu):
    a, b = a.contiguous(), b.contiguous()
    y = torch.empty_like(a)
    if a.numel():
        _gated_kernel[(triton.cdiv(a.numel(), BLOCK),)](a, b, y, a.numel(), GELU=gelu, BLOCK=BLOCK)
    return y


def swiglu(a, b):
    return _gated(a, b, gelu=False)


def geglu(a, b):
    return _gated(a, b, gelu=True)
