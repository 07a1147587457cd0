"""Crash: calls abort, as a failed assertion in C++ does."""

import os


def relu(x):
    os.abort()
