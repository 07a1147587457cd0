"""HACKS 26, theft from frames: takes `expected` from the local variables of a caller."""

import sys

import torch


def relu(x):
    frame = sys._getframe()
    while frame is not None:
        expected = frame.f_locals.get("expected")
        if isinstance(expected, torch.Tensor):
            return expected.clone()
        frame = frame.f_back
    return torch.zeros_like(x)
