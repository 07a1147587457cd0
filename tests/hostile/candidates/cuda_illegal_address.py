"""Crash, sticky: a Triton kernel writes to an address that is not mapped."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, BLOCK: tl.constexpr):
    far = (tl.arange(0, BLOCK) + 1).to(tl.int64) * (1 << 40)
    tl.store(x_ptr + far, 1.0)


def relu(x):
    kernel[(1,)](torch.zeros(16, device=x.device), BLOCK=64)
    return torch.relu(x)
