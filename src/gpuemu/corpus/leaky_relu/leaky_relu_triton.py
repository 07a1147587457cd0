"""Leaky ReLU in Triton: y = x for x > 0, slope * x otherwise."""

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def _leaky_relu_kernel(x_ptr, y_ptr, n_elements, BLOCK: tl.constexpr):
    # 64-bit offsets: a tensor may hold more than 2**31 elements.
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    y = tl.where(x > 0.0, x, 0.01 * x)
    tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty), mask=mask)


def leaky_relu_triton(x: torch.Tensor) -> torch.Tensor:
    """Return leaky_relu(x) for ``x`` of any shape and layout, in the dtype of ``x``."""
    x = x.contiguous()
    y = torch.empty_like(x)
    n_elements = x.numel()
    if n_elements == 0:
        return y
    _leaky_relu_kernel[(triton.cdiv(n_elements, BLOCK),)](x, y, n_elements, BLOCK=BLOCK)
    return y
