"""Poison on a device: adds into `torch.empty`, right while the allocator's memory happens to be zero."""

import torch


def matmul(a, b):
    out = torch.empty(a.shape[0], b.shape[1], dtype=torch.float64, device=a.device)
    out += a.double() @ b.double()
    return out.to(a.dtype)
