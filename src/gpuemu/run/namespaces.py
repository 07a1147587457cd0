"""A world of its own for the zygote: namespaces in which it is pid 1, and a file system it cannot change.

The outer process stays behind, passes on the exit status of the inner one, and neither outlives the judge.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from gpuemu.run import mounts, system
from gpuemu.run.mounts import Isolation
from gpuemu.run.protections import ISOLATION, Policy, Protections
from gpuemu.run.system import CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER

NOBODY = 65534  # what root is mapped to: a number that has a name nearly everywhere
_DOCUMENTATION_ADDRESS = ("192.0.2.1", 9)  # RFC 5737: belongs to nobody


_isolation = Isolation()


def get_isolation() -> Isolation:
    """State of this process and its forks; that of no isolation before `isolate`."""
    return _isolation


def is_first_process() -> bool:
    """Whether this process is the one that `isolate` made pid 1 of a namespace."""
    return _isolation.first is not None and _isolation.first == os.getpid()


def isolate(policy: Policy) -> Protections:
    """Enter namespaces as far as the system permits; call it first, with one thread, in the zygote.

    With a pid namespace it returns in a child, as pid 1; the caller's process waits outside. The current folder
    stays. Files stay readable as far as their owner and mode permit: root loses its right to other users'
    private files. What is done through descriptors opened before is not affected. The judge's thread that
    started the zygote must live as long as it. SIGKILL to the process that the judge started ends everyone.
    """
    global _isolation  # noqa: PLW0603 - the state of the process itself
    if not system.is_linux():
        return Protections.none(ISOLATION, "only Linux has it")
    if count_threads() != 1:
        return Protections.none(ISOLATION, "it must be entered before the first thread is started")
    judge = os.getppid()
    _die_with_parent()
    flags, missing = _choose()
    sockets = mounts.find_sockets()  # those of the network that is left behind are among them
    before = {name: _identify(name) for name in ("user", "mnt", "pid", "net", "ipc")}
    if flags:
        _enter(flags)
        _die_with_parent()
    if flags & CLONE_NEWPID:
        child = os.fork()
        if child:
            _wait_for(child)
        _die_with_parent()
    with suppress(OSError):
        os.setsid()  # no terminal to type into, and interrupts go to the judge alone
    system.prctl(system.PR_SET_CHILD_SUBREAPER, 1)
    inside = bool(flags & CLONE_NEWPID) and os.getpid() == 1 and os.getppid() == 0
    _isolation = Isolation(None if inside else judge, 1 if inside else None)
    if flags & CLONE_NEWNS:
        _isolation = mounts.arrange(policy, flags, _isolation, sockets)
    report = _verify(before, missing, inside)
    _isolation = replace(_isolation, own_network="network namespace" in report.active)
    with suppress(OSError):
        system.prctl(system.PR_SET_DUMPABLE, 0)  # no worker may read our memory; each sets its own back
    return report


def count_threads() -> int:
    """How many threads this process has."""
    return len(list(os.scandir("/proc/self/task")))


def _die_with_parent() -> None:
    """When the thread that started this process ends, so does it."""
    system.prctl(system.PR_SET_PDEATHSIG, signal.SIGKILL)


def _wait_for(child: int) -> NoReturn:
    """Outer process: hold nothing, and end as the inner process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the judge's to handle
    os.closerange(0, os.sysconf("SC_OPEN_MAX"))
    while True:
        with suppress(InterruptedError):
            _, status = os.waitpid(child, 0)
            break
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        os._exit(128 + number)
    os._exit(os.WEXITSTATUS(status))


def _choose() -> tuple[int, dict[str, str]]:
    """Which namespaces can be had, each tried in a throw-away process, and why not the others."""
    base, missing = CLONE_NEWUSER, {}
    if refusal := _try(lambda: _enter(CLONE_NEWUSER)):
        missing["user namespace"] = _explain(refusal)
        base = 0  # root can do without
    mounts = base | CLONE_NEWNS
    attempts: tuple[tuple[str, int, Callable[[], None]], ...] = (
        ("mount namespace", CLONE_NEWNS, lambda: _enter(mounts)),
        ("pid namespace", CLONE_NEWPID | CLONE_NEWNS, lambda: _enter_with_proc(mounts | CLONE_NEWPID)),
        ("network namespace", CLONE_NEWNET, lambda: _enter(base | CLONE_NEWNET)),
        ("ipc namespace", CLONE_NEWIPC, lambda: _enter(base | CLONE_NEWIPC)),
    )
    flags = base
    for name, flag, attempt in attempts:
        if refusal := _try(attempt):
            missing[name] = _explain(refusal)
        else:
            flags |= flag
    if "pid namespace" in missing:
        missing["own /proc"] = "it needs a pid namespace, which needs it in turn: see there"
    return flags, missing


def _enter(flags: int) -> None:
    user, group = os.geteuid(), os.getegid()
    system.unshare(flags)
    if flags & CLONE_NEWUSER:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user or NOBODY} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group or NOBODY} {group} 1")
    if flags & CLONE_NEWNS:
        system.mount("none", "/", None, system.MS_REC | system.MS_PRIVATE)


def _enter_with_proc(flags: int) -> None:
    """A pid namespace is of use only with a /proc that shows it; else /proc/self leads nowhere."""
    _enter(flags)
    if refusal := _try(mounts.mount_proc):
        raise OSError(refusal, os.strerror(refusal))


def _try(attempt: Callable[[], None]) -> int:
    """The error number of an attempt made in a fork of this process; 0 where it works."""
    child = os.fork()
    if not child:
        status = 0
        try:
            attempt()
        except OSError as error:
            status = error.errno or errno.EIO
        finally:
            os._exit(status)
    _, waited = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(waited) % 256


def _explain(number: int) -> str:
    hints = {
        errno.ENOSPC: "the limit in /proc/sys/user is reached or 0",
        errno.EPERM: "a container's seccomp profile or the system's settings forbid it",
        errno.EACCES: "a security module such as AppArmor forbids it",
    }
    hint = hints.get(number)
    return f"the system refuses it: {os.strerror(number)}" + (f" ({hint})" if hint else "")


def _identify(namespace: str) -> int:
    return Path(f"/proc/self/ns/{namespace}").stat().st_ino


def _verify(before: dict[str, int], missing: dict[str, str], inside: bool) -> Protections:
    """Look at each as a program would that wants out."""
    new = {name for name, inode in before.items() if _identify(name) != inode}
    pids = {entry.name for entry in os.scandir("/proc") if entry.name.isdigit()}
    seen = {
        "user namespace": "user" in new and os.geteuid() != 0,
        "mount namespace": "mnt" in new,
        "pid namespace": "pid" in new and inside,
        "own /proc": inside and pids == {"1"} and Path("/proc/self").readlink() == Path("1"),
        "network namespace": "net" in new and _is_cut_off(),
        "ipc namespace": "ipc" in new,
    }
    for name in ISOLATION:
        if not seen[name]:
            missing.setdefault(name, "it was set up, but did not hold when tried")
    return Protections(tuple(name for name in ISOLATION if name not in missing), missing)


def _is_cut_off() -> bool:
    """Whether there is no way to any other machine."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(_DOCUMENTATION_ADDRESS)  # sends nothing
    except OSError:
        return True
    return False
