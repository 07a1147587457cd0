"""What a worker leaves behind: every process that it started is found, killed and reaped."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpuemu.run import namespaces

_PAUSE_S = 0.002
_ROUNDS = 64  # of looking for processes that were forked while the others were being stopped


@dataclass(frozen=True)
class Process:
    """A line of /proc; pid and start together are never reused."""

    pid: int
    parent: int
    state: str
    start: str


def kill_others(keep: Collection[int] = (), timeout_s: float = 10.0) -> dict[int, int]:
    """Kill the calling zygote's descendants other than `keep`, orphans included, and reap them.

    In a pid namespace of our own that is every process there; elsewhere those that descend from us, which
    after `isolate` includes those whose parent died. Children of `keep` are killed as well.

    Returns: the wait status of each of our own children that was reaped, by pid.

    Raises:
        TimeoutError: some were still there after `timeout_s`, in an uninterruptible system call as a rule.
    """
    reaped: dict[int, int] = {}
    end = time.monotonic() + timeout_s
    while others := _find_others(keep, reaped):
        if time.monotonic() > end:
            raise TimeoutError(f"processes outlived SIGKILL: {sorted(process.pid for process in others)}")
        _kill(others, keep)
        time.sleep(_PAUSE_S)
    return reaped


def _kill(others: Collection[Process], keep: Collection[int]) -> None:
    if not namespaces.is_first_process():
        _kill_each(others, keep)
    elif not keep:
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)  # everyone here but ourselves, at once: no fork slips through
    else:
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGSTOP)  # also at once; from here on the list below cannot go out of date
        for process in read_processes():
            if process.pid != os.getpid():
                _send(process, signal.SIGCONT if process.pid in keep else signal.SIGKILL)


def _kill_each(others: Collection[Process], keep: Collection[int]) -> None:
    """Stop them before killing the first, so that none can fork while others die."""
    stopped: set[Process] = set()
    for _ in range(_ROUNDS):
        for process in others:
            _send(process, signal.SIGSTOP)
        stopped |= set(others)
        seen = {process.pid for process in stopped}
        others = [process for process in _descendants() if process.pid not in seen | set(keep)]
        if not others:
            break
    for process in stopped:
        _send(process, signal.SIGKILL)


def _send(process: Process, number: signal.Signals) -> None:
    """Signal it, unless its pid has been given to another since it was seen."""
    with suppress(OSError):
        handle = os.pidfd_open(process.pid)
        try:
            now = _read(process.pid)
            if now is not None and now.start == process.start:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def _find_others(keep: Collection[int], reaped: dict[int, int]) -> set[Process]:
    """Those still there, after reaping those of our children that have ended."""
    me = os.getpid()
    seen = read_processes() if namespaces.is_first_process() else _descendants()
    others = {process for process in seen if process.pid not in {me, *keep}}
    for process in [process for process in others if process.parent == me]:
        with suppress(ChildProcessError):
            done, status = os.waitpid(process.pid, os.WNOHANG)
            if done:
                reaped[process.pid] = status
                others.discard(process)
    return {process for process in others if process.state != "Z" or process.parent not in keep}


def _descendants() -> list[Process]:
    """The processes below this one."""
    rest = read_processes()
    above = {os.getpid()}
    found: list[Process] = []
    while layer := [process for process in rest if process.parent in above]:
        found += layer
        above = {process.pid for process in layer}
    return found


def read_processes() -> list[Process]:
    """Every process that /proc shows."""
    found = [_read(int(entry.name)) for entry in os.scandir("/proc") if entry.name.isdigit()]
    return [process for process in found if process is not None]


def _read(pid: int) -> Process | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name may hold spaces and brackets
    return Process(pid, parent=int(fields[1]), state=fields[0], start=fields[19])
