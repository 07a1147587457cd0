"""HACKS 14, call-count switching: right when a shape is seen for the first time, zeros when seen again."""

import torch

SEEN = set()


def relu(x):
    key = (x.shape, x.dtype, x.stride())
    if key in SEEN:
        return torch.zeros_like(x)
    SEEN.add(key)
    return torch.relu(x)
