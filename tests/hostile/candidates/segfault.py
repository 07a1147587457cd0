"""Crash: writes to address 0."""

import ctypes


def relu(x):
    ctypes.memset(0, 1, 8)
