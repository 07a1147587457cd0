"""Hang: SIGSTOP to itself; the process is there but answers nothing."""

import os
import signal


def relu(x):
    os.kill(os.getpid(), signal.SIGSTOP)
