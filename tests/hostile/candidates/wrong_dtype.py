"""Form: the right values in float64."""

import torch


def relu(x):
    return torch.relu(x).double()
