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


@dataclass(frozen=True)
class Process:
    """A line of /proc."""

    pid: int
    parent: int
    state: str


def kill_others(keep: Collection[int] = (), timeout_s: float = 10.0) -> dict[int, int]:
    """Kill the calling zygote's descendants other than `keep`, orphans included, and reap them.

    In a pid namespace of our own that is every process there. Elsewhere it is those that descend from us, which
    after `isolate` includes those whose parent died; what a kept one has started is left alone.

    Returns: the wait status of each of our own children that was reaped, by pid.

    Raises:
        TimeoutError: some were still there after `timeout_s`, in an uninterruptible system call as a rule.
    """
    reaped: dict[int, int] = {}
    end = time.monotonic() + timeout_s
    while others := _find_others(keep, reaped):
        if time.monotonic() > end:
            raise TimeoutError(f"processes outlived SIGKILL: {sorted(process.pid for process in others)}")
        if namespaces.is_first_process():
            _kill_everyone(keep)
        else:
            _kill_children(keep, reaped, end)
        time.sleep(_PAUSE_S)
    return reaped


def _kill_everyone(keep: Collection[int]) -> None:
    """Only for pid 1 of a namespace: there -1 means all others, and at once, so that no fork slips through."""
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGSTOP if keep else signal.SIGKILL)
    if keep:  # everyone has stopped, hence this list cannot go out of date
        for process in read_processes():
            if process.pid != os.getpid():
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGCONT if process.pid in keep else signal.SIGKILL)


def _kill_children(keep: Collection[int], reaped: dict[int, int], end: float) -> None:
    """From the top: the children of each that dies become ours. A pid stays its child's until we reap it."""
    while (children := [pid for pid in _list_children() if pid not in keep]) and time.monotonic() < end:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        if not any([_reap(pid, reaped) for pid in children]):  # noqa: C419 - each is to be tried
            time.sleep(_PAUSE_S)


def _list_children() -> list[int]:
    """Fast, since one that keeps forking and leaving moves on while a slower look is taken."""
    try:
        texts = [Path(entry.path, "children").read_text() for entry in os.scandir("/proc/self/task")]
    except OSError:  # a kernel without that file
        return [process.pid for process in read_processes() if process.parent == os.getpid()]
    return [int(pid) for text in texts for pid in text.split()]


def _reap(pid: int, reaped: dict[int, int]) -> bool:
    with suppress(ChildProcessError):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            reaped[pid] = status
            return True
    return False


def _find_others(keep: Collection[int], reaped: dict[int, int]) -> set[Process]:
    """Those still there, after reaping those of our children that have ended."""
    me = os.getpid()
    seen = read_processes() if namespaces.is_first_process() else _descendants(keep)
    others = {process for process in seen if process.pid not in {me, *keep}}
    others = {process for process in others if process.parent != me or not _reap(process.pid, reaped)}
    return {process for process in others if process.state != "Z" or process.parent not in keep}


def _descendants(keep: Collection[int]) -> list[Process]:
    """The processes below this one, but not those at or below one that is kept."""
    rest = [process for process in read_processes() if process.pid not in keep]
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
    return Process(pid, parent=int(fields[1]), state=fields[0])
