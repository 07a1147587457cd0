"""Hang: ignores every signal that can be ignored, then sleeps for ever."""

import signal
import time


def relu(x):
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(1)
