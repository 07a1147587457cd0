"""Crash: SIGKILL to itself, as an out-of-memory killer would."""

import os
import signal


def relu(x):
    os.kill(os.getpid(), signal.SIGKILL)
