"""Memory: asks for more than the device has, with plain allocations."""

import torch

KEPT = []


def relu(x):
    while True:
        KEPT.append(torch.empty(16 << 30, dtype=torch.uint8, device=x.device))
