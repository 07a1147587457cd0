"""Crash: one call in ten ends the process; the others are right."""

import os
import random

import torch


def relu(x):
    if random.SystemRandom().random() < 0.1:
        os.abort()
    return torch.relu(x)
