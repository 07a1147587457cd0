"""Form: an iterator without end in place of tensors."""

import itertools

import torch


class Endless(tuple):
    """A tuple by type that never ends when iterated."""

    def __iter__(self):
        return itertools.repeat(torch.zeros(1))


def relu(x):
    return Endless((torch.relu(x),))
