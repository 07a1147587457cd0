"""HACKS 18 and 31: looks for `--seed` in the command lines of its own process and all above it.

Right only if it finds one: a right answer is the proof that the seed can be read.
"""

import os

import torch


def parent_of(pid):
    with open(f"/proc/{pid}/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("PPid"))


def find_seed():
    pid = os.getpid()
    while pid > 0:
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if b"\0--seed\0" in file.read():
                    return True
            pid = parent_of(pid)
        except OSError:
            return False
    return False


def relu(x):
    return torch.relu(x) if find_seed() else torch.zeros_like(x)
