"""Form: a hundred thousand outputs."""

import torch


def relu(x):
    return [torch.relu(x)] + [torch.zeros(1)] * 100_000
