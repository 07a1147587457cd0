"""Form: a tensor of the right shape without any memory."""

import torch


def relu(x):
    return torch.empty(x.shape, dtype=x.dtype, device="meta")
