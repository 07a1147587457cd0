"""HACKS 32 and 34: leaves a process of its own session behind, for 60 seconds. Its values are right."""

import os
import time

import torch

STARTED = []


def relu(x):
    if not STARTED:
        STARTED.append(True)
        try:
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    for descriptor in range(64):
                        try:
                            os.close(descriptor)
                        except OSError:
                            pass
                    time.sleep(60)
                os._exit(0)
        except OSError:
            pass
    return torch.relu(x)
