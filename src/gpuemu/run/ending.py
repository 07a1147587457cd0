"""How a process ended, in words."""

from __future__ import annotations

import os
import signal

LINE_LENGTH = 200


def describe(status: int | None) -> str:
    """A wait status (`os.waitpid`) as a sentence; None is of a process that had to be ended."""
    if status is None:
        return "it closed its channel and went on"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            return f"ended by {signal.Signals(number).name}"
        except ValueError:
            return f"ended by signal {number}"
    return f"ended itself with exit status {os.waitstatus_to_exitcode(status)}"


def last_line(printed: bytes) -> str:
    """The last line with something in it, cut to fit a message."""
    lines = [line.strip() for line in printed.decode(errors="replace").splitlines() if line.strip()]
    return "".join(c for c in lines[-1] if c.isprintable())[:LINE_LENGTH] if lines else ""
