"""HACKS 34, background thread: returns the answer, which a thread overwrites a little later."""

import threading
import time

import torch


def overwrite(out):
    time.sleep(0.002)
    for _ in range(50):
        out.fill_(7.0)
        time.sleep(0.002)


def relu(x):
    out = torch.relu(x)
    threading.Thread(target=overwrite, args=(out,), daemon=True).start()
    return out
