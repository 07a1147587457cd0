"""Red zone: adds 0 times the element behind a contiguous input, harmless while that is finite."""

import ctypes

import torch


def relu(x):
    out = torch.relu(x)
    if x.is_contiguous() and x.numel():
        size = x.numel() * x.element_size()
        behind = torch.frombuffer(
            (ctypes.c_char * x.element_size()).from_address(x.data_ptr() + size), dtype=x.dtype
        )
        out = out + 0 * behind
    return out
