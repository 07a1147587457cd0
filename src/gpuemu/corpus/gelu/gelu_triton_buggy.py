"""GELU, tanh form, in Triton: y = 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def _gelu_kernel(x_ptr, y_ptr, n_elements, BLOCK: tl.constexpr):
    # 64-bit offsets: a tensor may hold more than 2**31 elements.
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    # tanh through one exponential, which saturates to -1 and 1 instead of giving inf / inf.
    tanh = 2.0 / (1.0 + tl.exp(-2.0 * inner)) - 1.0
    y = x * (1.0 + tanh)
    tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty), mask=mask)


def gelu_triton_buggy(x: torch.Tensor) -> torch.Tensor:
    """Return gelu(x) in the tanh form for ``x`` of any shape and layout, in the dtype of ``x``."""
    x = x.contiguous()
    y = torch.empty_like(x)
    n_elements = x.numel()
    if n_elements == 0:
        return y
    _gelu_kernel[(triton.cdiv(n_elements, BLOCK),)](x, y, n_elements, BLOCK=BLOCK)
    return y
