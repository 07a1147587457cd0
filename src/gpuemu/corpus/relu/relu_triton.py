"""ReLU in Triton: y = max(x, 0)."""

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def _relu_kernel(x_ptr, y_ptr, n_elements, BLOCK: tl.constexpr):
    # 64-bit offsets: a tensor may hold more than 2**31 elements.
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    # tl.maximum drops NaN: relu(NaN) is 0 here, where torch keeps the NaN.
    y = tl.maximum(x, 0.0)
    tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty), mask=mask)


def relu_triton(x: torch.Tensor) -> torch.Tensor:
    """Return max(x, 0) for ``x`` of any shape and layout, in the dtype of ``x``."""
    x = x.contiguous()
    y = torch.empty_like(x)
    n_elements = x.numel()
    if n_elements == 0:
        return y
    _relu_kernel[(triton.cdiv(n_elements, BLOCK),)](x, y, n_elements, BLOCK=BLOCK)
    return y
