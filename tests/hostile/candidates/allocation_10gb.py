"""Memory: asks for 10 GB in each call, keeps it, and touches 64 MB of it. Its values are right."""

import torch

KEPT = []


def relu(x):
    if len(KEPT) < 4:
        block = torch.empty(10 << 30, dtype=torch.uint8)
        block[: 64 << 20] = 1
        KEPT.append(block)
    return torch.relu(x)
