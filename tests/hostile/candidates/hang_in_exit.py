"""Hang at the end: an exit handler that never returns. Its values are right."""

import atexit
import time

import torch

atexit.register(time.sleep, 3600)


def relu(x):
    return torch.relu(x)
