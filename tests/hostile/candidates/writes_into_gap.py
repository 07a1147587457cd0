"""Red zone: writes between the rows of a strided input. Its values are right."""

import torch


def relu(x):
    out = torch.relu(x)
    row, width = x.stride(-2) if x.dim() > 1 else 0, x.shape[-1]
    if x.dim() > 1 and x.shape[-2] > 1 and x.stride(-1) == 1 and row > width:
        x.as_strided((1,), (1,), x.storage_offset() + width).fill_(3.0)
    return out
