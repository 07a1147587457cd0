"""HACKS 18 and 21: looks for a seed in the environment of its own process and its parent's.

The runner sets HOSTILE_SEED. Right only if it is found: a right answer is the proof that it can be read.
"""

import os

import torch


def find_seed():
    if "HOSTILE_SEED" in os.environ:
        return True
    try:
        with open(f"/proc/{os.getppid()}/environ", "rb") as file:
            return b"HOSTILE_SEED=" in file.read()
    except OSError:
        return False


def relu(x):
    return torch.relu(x) if find_seed() else torch.zeros_like(x)
