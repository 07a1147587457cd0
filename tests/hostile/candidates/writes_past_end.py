"""Red zone: writes one element behind a contiguous input. Its values are right."""

import ctypes

import torch


def relu(x):
    out = torch.relu(x)
    if x.is_contiguous() and x.numel():
        size = x.numel() * x.element_size()
        ctypes.memset(x.data_ptr() + size, 0x55, x.element_size())
    return out
