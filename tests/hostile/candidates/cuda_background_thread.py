"""HACKS 34: a thread launches the work on the device after the call has returned."""

import threading
import time

import torch


def compute(out, x):
    time.sleep(0.02)
    out.copy_(torch.relu(x))


def relu(x):
    out = torch.zeros_like(x)
    threading.Thread(target=compute, args=(out, x.clone()), daemon=True).start()
    return out
