"""Crash, sticky: an assertion on the device; every later call in this process fails too."""

import torch


def relu(x):
    index = torch.full((1,), 1 << 20, dtype=torch.int64, device=x.device)
    torch.zeros(4, device=x.device)[index].sum()
    torch.cuda.synchronize()
    return torch.relu(x)
