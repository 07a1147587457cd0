"""Who dies with whom, and that nothing else is ever killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuemu.run import namespaces, processes, system

pytestmark = pytest.mark.skipif(not system.is_linux(), reason="Linux only")

ZYGOTE = """
import ctypes, os, sys, time
from gpuemu.run import sandbox
outside = os.getpid()
report = sandbox.isolate(sandbox.Policy())
print(outside, len(report.active), flush=True)
{then}
"""
JUDGE = """
import subprocess, sys, time
zygote = subprocess.Popen([sys.executable, "-c", {zygote!r}])
time.sleep(60)
"""


def run_zygote(then: str) -> int:
    program = ZYGOTE.format(then=then)
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=60, check=False
    ).returncode


def test_the_exit_status_is_passed_on() -> None:
    assert run_zygote("sys.exit(7)") == 7
    assert run_zygote("ctypes.string_at(0)") == -signal.SIGSEGV


def test_the_zygote_dies_with_the_judge_and_its_outer_process() -> None:
    for victim in ("judge", "outer"):
        program = JUDGE.format(zygote=ZYGOTE.format(then="os.fork(); time.sleep(60)"))
        judge = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        assert judge.stdout is not None
        outer = int(judge.stdout.readline().split()[0])
        assert wait_until(lambda outer=outer: len(below(outer)) >= 1)
        time.sleep(0.05)
        everyone = {outer, *below(outer)}
        os.kill(judge.pid if victim == "judge" else outer, signal.SIGKILL)
        assert wait_until(lambda everyone=everyone: not everyone & alive())
        judge.kill()
        judge.wait()
        judge.stdout.close()


def below(root: int) -> set[int]:
    found, layer = set(), {root}
    while layer:
        layer = {process.pid for process in processes.read_processes() if process.parent in layer}
        found |= layer
    return found


def alive() -> set[int]:
    return {process.pid for process in processes.read_processes() if process.state != "Z"}


def wait_until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


def in_fork(action: Callable[[], bool]) -> bool:
    """Whether it holds in a process with no children but its own."""
    if not (child := os.fork()):
        try:
            os._exit(0 if action() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_without_a_namespace_only_descendants_are_killed() -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])

    def clear() -> bool:
        kept, killed = sleep_in_fork(), sleep_in_fork()
        statuses = processes.kill_others(keep=[kept])
        right = statuses == {killed: signal.SIGKILL} and kept in alive() and stranger.pid in alive()
        return right and processes.kill_others() == {kept: signal.SIGKILL}

    assert in_fork(clear)
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def sleep_in_fork() -> int:
    if not (child := os.fork()):
        time.sleep(60)
        os._exit(0)
    return child


def test_a_kept_process_goes_on_inside_a_namespace() -> None:
    then = """
from gpuemu.run import namespaces, processes
if not namespaces.is_first_process(): sys.exit(0)
def child():
    pid = os.fork()
    if not pid:
        time.sleep(60)
    return pid
kept, killed = child(), child()
statuses = sandbox.kill_others(keep=[kept])
assert statuses == {killed: 9}, statuses
time.sleep(0.05)
states = {process.pid: process.state for process in processes.read_processes()}
assert set(states) == {1, kept} and states[kept] != "T", states
assert sandbox.kill_others() == {kept: 9}
"""
    assert run_zygote(then) == 0


def test_everyone_is_never_signalled_outside_a_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    def clear() -> bool:
        child, sent = sleep_in_fork(), []
        real = os.kill
        monkeypatch.setattr(
            os, "kill", lambda pid, number: (sent.append(pid), real(pid, number) if pid > 0 else 0)
        )
        processes.kill_others()
        return set(sent) == {child}

    assert not namespaces.is_first_process()
    assert in_fork(clear)


def test_a_process_that_cannot_be_killed_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = processes.Process(pid=1 << 30, parent=1, state="D")
    monkeypatch.setattr(processes, "_descendants", lambda keep: [stuck])
    with pytest.raises(TimeoutError, match=str(1 << 30)):
        processes.kill_others(timeout_s=0.0)


def test_a_kernel_that_does_not_list_children(monkeypatch: pytest.MonkeyPatch) -> None:
    def look() -> bool:
        child = sleep_in_fork()
        seen = processes._list_children() == [child]
        monkeypatch.setattr(os, "scandir", refuse_tasks)
        return seen and processes._list_children() == [child] and set(processes.kill_others()) == {child}

    real = os.scandir

    def refuse_tasks(path: str) -> object:
        if path.endswith("task"):
            raise FileNotFoundError
        return real(path)

    assert in_fork(look)


def test_names_in_proc_may_hold_anything(tmp_path: Path) -> None:
    def rename() -> bool:
        Path("/proc/self/comm").write_text("a) S 1 (b")
        return processes._read(os.getpid()).parent == os.getppid()

    assert in_fork(rename)
