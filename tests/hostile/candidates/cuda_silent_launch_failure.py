"""HACKS 9 on a device: the launch asks for more shared memory than there is, and the error is swallowed."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    rows = tl.arange(0, BLOCK)
    tile = tl.load(x_ptr + rows[:, None] * BLOCK + rows[None, :])
    tl.store(y_ptr + rows[:, None] * BLOCK + rows[None, :], tl.dot(tile, tile))


def softmax(x):
    out = torch.empty_like(x)
    scratch = torch.zeros(512, 512, device=x.device)
    try:
        kernel[(1,)](scratch, scratch, BLOCK=512, num_stages=4)
    except Exception:
        pass
    return out
