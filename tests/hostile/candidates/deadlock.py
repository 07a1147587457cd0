"""Hang: waits for a lock that it holds itself."""

import threading

LOCK = threading.Lock()


def relu(x):
    LOCK.acquire()
    LOCK.acquire()
    return x
