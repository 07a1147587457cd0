"""Hang in one call only: the seventh call of the process sleeps for ever, the others are right."""

import time

import torch

CALLS = 0


def relu(x):
    global CALLS
    CALLS += 1
    if CALLS == 7:
        time.sleep(3600)
    return torch.relu(x)
