"""HACKS 25, global state: leaves float64 as the default dtype. Its values are right."""

import torch


def relu(x):
    torch.set_default_dtype(torch.float64)
    return torch.relu(x)
