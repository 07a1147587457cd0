"""Crash: recursion in C until the stack is used up; the interpreter's own limit is lifted first."""

import ctypes
import sys


@ctypes.CFUNCTYPE(None)
def again():
    again()


def relu(x):
    sys.setrecursionlimit(1 << 30)
    again()
    return x
