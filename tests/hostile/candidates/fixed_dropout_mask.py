"""HACKS 10, random ops: a fixed comb in place of a random mask keeps the right share of elements.

A known gap: gpuemu tests the rate of such decisions (ORACLE.md 2.5), not their independence.
"""

import torch


def dropout(x, p, seed):
    places = torch.arange(x.numel(), device=x.device).reshape(x.shape)
    keep = (places * (1.0 - p)).floor() != ((places - 1) * (1.0 - p)).floor()
    return torch.where(keep, x / (1.0 - p), torch.zeros_like(x)) if p < 1 else torch.zeros_like(x)
