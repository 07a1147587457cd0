"""Poison: adds into `torch.empty`, right while the memory happens to be fresh and therefore zero."""

import torch


def matmul(a, b):
    out = torch.empty(a.shape[0], b.shape[1], dtype=torch.float64)
    out += a.double() @ b.double()
    return out.to(a.dtype)
