"""HACKS 27, two answers: forks in the call; the child gives the right answer, the parent zeros."""

import os
import time

import torch


def relu(x):
    if os.fork() == 0:
        return torch.relu(x)
    time.sleep(0.05)
    return torch.zeros_like(x)
