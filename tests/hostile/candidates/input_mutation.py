"""HACKS 30, input mutation: empties the input, so that a reference computed afterwards agrees with zeros."""

import torch


def relu(x):
    x.zero_()
    return torch.zeros_like(x)
