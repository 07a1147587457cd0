"""A judge, a zygote and a worker in a process of their own: `sandbox_trial.py ATTEMPT USER MODE ARGUMENT`.

Prints as JSON what the worker reported, what came of its attempt, and what was left after it.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import resource  # noqa: F401 - before the user changes: an ordinary one may not be allowed to read the library
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuemu.run import landlock, namespaces, sandbox, system

TIMEOUT_S = 60
PROCESSES = 64
MEMORY_BYTES = 1 << 28


@dataclass(frozen=True)
class Trial:
    """What came of it."""

    active: tuple[str, ...]
    missing: dict[str, str]
    result: Any
    left: list[int]  # pids that the zygote still saw after it had killed what the worker left
    status: int


def run_trial(attempt: str, user: str = "same", mode: str = "full", argument: str = "") -> Trial:
    """Do it, from a test."""
    command = [sys.executable, __file__, attempt, user, mode, argument]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    report = sandbox.Protections.from_json(answer["report"])
    return Trial(report.active, dict(report.missing), answer["result"], answer["left"], answer["status"])


def attempt_of(action: Callable[[], object]) -> str:
    """ "done", or the name of the error."""
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, repr(error))
    except MemoryError:
        return "MemoryError"
    return "done"


class Attempts:
    """What a hostile candidate might do, one method each."""

    def __init__(self, folder: Path, judge: int, argument: str) -> None:
        self.folder, self.judge, self.argument = folder, judge, argument

    def nothing(self) -> None:
        pass

    def write(self) -> dict[str, str]:
        other, module = self.folder / "other", Path(sandbox.__file__)
        return {
            "read": attempt_of(other.read_text),
            "scratch": attempt_of(lambda: (self.folder / "scratch/file").write_text("x")),
            "beside": attempt_of(lambda: (self.folder / "new").write_text("x")),
            "other": attempt_of(lambda: other.write_text("x")),
            "truncate": attempt_of(lambda: os.truncate(other, 0)),
            "remove": attempt_of(other.unlink),
            "move": attempt_of(lambda: other.rename(self.folder / "scratch/moved")),
            "link": attempt_of(lambda: os.link(other, self.folder / "scratch/link")),
            "module": attempt_of(lambda: os.close(os.open(module, os.O_WRONLY))),
            "chmod": attempt_of(lambda: other.chmod(0o600)),
            "kernel": attempt_of(lambda: os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))),
            "null": attempt_of(lambda: Path("/dev/null").write_text("x")),
            "thread name": attempt_of(
                lambda: Path("/proc/self/task", str(os.getpid()), "comm").write_text("x")
            ),
            "kept": "done" if other.is_file() and other.read_text() == "kept" else "changed",
        }

    def read_store(self) -> dict[str, str]:
        store = self.folder / "store"
        hidden = attempt_of((store / "runs.sqlite").read_bytes)
        unmounted = attempt_of(lambda: system.umount(str(store)))
        fresh = attempt_of(lambda: namespaces._enter(system.CLONE_NEWUSER | system.CLONE_NEWNS))
        again = attempt_of(lambda: system.umount(str(store)))
        last = attempt_of((store / "runs.sqlite").read_bytes)
        return {"read": hidden, "umount": unmounted, "namespace": fresh, "umount there": again, "last": last}

    def connect(self) -> dict[str, str]:
        port, path = self.argument.split(":")
        tcp, unix = socket.socket(), socket.socket(socket.AF_UNIX)
        abstract = socket.socket(socket.AF_UNIX)
        return {
            "tcp": attempt_of(lambda: tcp.connect(("127.0.0.1", int(port)))),
            "unix": attempt_of(lambda: unix.connect(path)),
            "abstract": attempt_of(lambda: abstract.connect("\0" + path)),
        }

    def reach_judge(self) -> dict[str, object]:
        pids = sorted(int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit())
        return {
            "pids": pids,
            "me": os.getpid(),
            "signal judge": attempt_of(lambda: os.kill(self.judge, 0)),
            "signal zygote": attempt_of(lambda: os.kill(os.getppid(), 0)),
            "read judge": system.may_read_memory(self.judge),
            "read zygote": system.may_read_memory(os.getppid()),
        }

    def allocate(self) -> dict[str, str]:
        def grow_shared() -> None:
            file = os.memfd_create("x")
            os.ftruncate(file, 1 << 40)

        return {
            "10 GB": attempt_of(lambda: bytearray(10 << 30)),
            "10 GB mapped": attempt_of(lambda: mmap.mmap(-1, 10 << 30)),
            "64 MB": attempt_of(lambda: bytearray(64 << 20)),
            "shared": attempt_of(grow_shared),
        }

    def fork_bomb(self) -> int:
        for count in range(20 * PROCESSES):
            try:
                child = os.fork()
            except OSError:
                return count
            if not child:
                time.sleep(TIMEOUT_S)
                os._exit(0)
        return 20 * PROCESSES

    def leave_orphans(self) -> None:
        """A daemon, a stopped process and a nest of forks that keep forking."""
        source, sink = os.pipe()
        if not os.fork():
            os.setsid()
            if not os.fork():
                os.write(sink, b"x")
                end = time.monotonic() + TIMEOUT_S
                while time.monotonic() < end:
                    with suppress(OSError):
                        if os.fork():
                            os._exit(0)
            os._exit(0)
        if not os.fork():
            os.write(sink, b"x")
            os.kill(os.getpid(), 19)
            time.sleep(TIMEOUT_S)
        got = b""
        while len(got) < 2:
            got += os.read(source, 2)


def weaken(mode: str) -> None:
    """Make the system offer less, for real where that can be done."""
    if "userns" in mode:  # as where user namespaces are refused and the user is not root
        namespaces._enter(system.CLONE_NEWUSER)
        Path("/proc/sys/user/max_user_namespaces").write_text("0")
        system.drop_capabilities()
    if "landlock" in mode:
        landlock.get_abi = lambda: 0
    if "bare" in mode:

        def refuse(flags: int) -> None:
            raise PermissionError(errno.EPERM, "refused")

        system.unshare = refuse


def main(attempt: str, user: str, mode: str, argument: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="gpuemu-trial-"))
    for name in ("scratch", "store"):
        (folder / name).mkdir()
    (folder / "store/runs.sqlite").write_text("seed")
    (folder / "other").write_text("kept")
    if user == "nobody" and os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, 65534, 65534)
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        system.prctl(system.PR_SET_DUMPABLE, 1)  # as after an exec
    os.chdir(folder)
    weaken(mode)
    judge = os.getpid()
    source, sink = os.pipe()
    zygote = os.fork()
    if not zygote:
        be_zygote(folder, Attempts(folder, judge, argument), attempt, sink)
    os.close(sink)
    with os.fdopen(source) as answers:
        text = answers.read()
    _, status = os.waitpid(zygote, 0)
    parts = {"report": None, "result": None, "left": None, "status": status}
    for line in text.splitlines():
        parts |= json.loads(line)
    print(json.dumps(parts))  # noqa: T201
    with suppress(OSError):
        subprocess.run(["rm", "-rf", folder], check=False)  # noqa: S607


def be_zygote(folder: Path, attempts: Attempts, attempt: str, sink: int) -> None:
    policy = sandbox.Policy(
        (str(folder / "scratch"),), (str(folder / "store"),), MEMORY_BYTES, PROCESSES, file_bytes=1 << 30
    )
    isolated = sandbox.isolate(policy)
    assert Path.cwd() == folder
    worker = os.fork()
    if not worker:
        report = isolated.join(sandbox.confine(policy))
        say(sink, report=report.to_json())
        say(sink, result=getattr(attempts, attempt)())
        os._exit(0)
    while os.waitid(os.P_PID, worker, os.WEXITED | os.WNOWAIT) is None:
        pass
    statuses = sandbox.kill_others()
    assert statuses[worker] == 0, statuses
    seen = sandbox.read_processes()
    mine = [process.pid for process in seen if namespaces.is_first_process() or process.parent == os.getpid()]
    say(sink, left=[pid for pid in mine if pid != os.getpid()])
    os._exit(0)


def say(sink: int, **part: object) -> None:
    os.write(sink, json.dumps(part).encode() + b"\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
