"""Form: two outputs in place of one, the first of them right."""

import torch


def relu(x):
    return torch.relu(x), torch.zeros_like(x)
