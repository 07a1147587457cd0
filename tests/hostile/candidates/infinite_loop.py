"""Hang: a loop that never ends."""


def relu(x):
    while True:
        pass
