"""HACKS 14 and 37, wrong in every third call."""

import torch

CALLS = 0


def relu(x):
    global CALLS
    CALLS += 1
    return torch.relu(x) if CALLS % 3 else torch.zeros_like(x)
