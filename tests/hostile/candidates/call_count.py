"""HACKS 14, call-count switching: right for the first ten calls of the process, zeros from then on."""

import torch

CALLS = 0


def relu(x):
    global CALLS
    CALLS += 1
    return torch.relu(x) if CALLS <= 10 else torch.zeros_like(x)
