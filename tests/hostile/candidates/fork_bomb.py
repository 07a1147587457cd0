"""Crash: a fork bomb within limits: 150 processes at most, each of which ends after 5 seconds. Then zeros."""

import os
import time

import torch

STARTED = 0


def relu(x):
    global STARTED
    while STARTED < 150:
        STARTED += 1
        try:
            pid = os.fork()
        except OSError:
            break
        if pid == 0:
            time.sleep(5)
            os._exit(0)
    return torch.zeros_like(x)
