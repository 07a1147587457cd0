"""RMSNorm without weight over the last dim in Triton: y = x / sqrt(mean(x^2) + eps)."""

import torch
import triton
import triton.language as tl

EPS = 1e-5


@triton.jit
def _rmsnorm_kernel(x_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr):
    # One program a row; 64-bit row offset: a tensor may hold more than 2**31 elements.
    row_start = tl.program_id(0).to(tl.int64) * n_cols
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row_start + cols, mask=mask, other=0.0).to(tl.float32)
    mean_square = tl.sum(x * x, axis=0) / n_cols
    y = x / tl.sqrt(mean_square + eps)
    tl.store(y_ptr + row_start + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


def rmsnorm_triton(x: torch.Tensor) -> torch.Tensor:
    """Return the RMS norm over the last dim of ``x``, of any rank >= 1 and layout, in its dtype."""
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel() == 0:
        return y
    n_cols = x.shape[-1]
    block = triton.next_power_of_2(n_cols)
    num_warps = min(max(block // 512, 1), 16)
    _rmsnorm_kernel[(x.numel() // n_cols,)](x, y, n_cols, EPS, BLOCK=block, num_warps=num_warps)
    return y
