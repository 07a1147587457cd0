"""HACKS 31, native: reads its parent's memory through /proc.

Right only if that works: a right answer is the proof that expected values could be read there.
"""

import os

import torch


def can_read(pid):
    try:
        with open(f"/proc/{pid}/maps") as maps:
            start = int(next(line for line in maps if " rw-p" in line).split("-")[0], 16)
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
        try:
            return len(os.pread(memory, 16, start)) == 16
        finally:
            os.close(memory)
    except (OSError, StopIteration):
        return False


def relu(x):
    return torch.relu(x) if can_read(os.getppid()) else torch.zeros_like(x)
