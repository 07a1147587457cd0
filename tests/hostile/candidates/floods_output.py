"""HACKS 27 and 32, flood: 2 MB of text on stdout and stderr in each call. Its values are right."""

import os

import torch


def relu(x):
    for descriptor in (1, 2):
        for _ in range(32):
            os.write(descriptor, b"\x1b[31mflood \n" * 6000)
    return torch.relu(x)
