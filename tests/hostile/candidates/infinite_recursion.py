"""Exception: Python recursion without end (RecursionError)."""


def relu(x):
    return relu(x)
