"""Form: a tensor whose storage was given back; reading its elements reads beyond the storage."""

import torch


def relu(x):
    out = torch.relu(x).contiguous()
    out.untyped_storage().resize_(0)
    return out
