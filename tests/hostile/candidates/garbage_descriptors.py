"""Crash: writes random bytes to every descriptor that it inherited, the channel of its answers among them."""

import os

import torch


def relu(x):
    for descriptor in range(3, 64):
        try:
            os.set_blocking(descriptor, False)
            os.write(descriptor, os.urandom(64))
        except OSError:
            pass
    return torch.zeros_like(x)
