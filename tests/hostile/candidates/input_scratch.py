"""HACKS 30, input as scratch: computes in the input, then undoes it by arithmetic, which loses last bits."""

import torch


def relu(x):
    out = torch.relu(x)
    x.add_(1.0)
    x.sub_(1.0)
    return out
