"""Crash: sets an alarm that ends the process a little later, in the middle of something else."""

import signal

import torch


def relu(x):
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 0.002)
    return torch.relu(x)
