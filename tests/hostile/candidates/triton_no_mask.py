"""Out of range: a Triton kernel whose load and store have no mask; the last block runs past both ends."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + places, tl.maximum(tl.load(x_ptr + places), 0.0, propagate_nan=tl.PropagateNan.ALL))


def relu(x):
    x = x.contiguous()
    block = 64
    # Room behind the output, so that what runs past its end stays in this kernel's own memory.
    room = torch.empty(x.numel() + block, dtype=x.dtype, device=x.device)
    kernel[(triton.cdiv(x.numel(), block),)](x, room, BLOCK=block)
    return room[: x.numel()].view(x.shape)
