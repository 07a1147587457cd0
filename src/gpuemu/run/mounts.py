"""The file system that a zygote sees: all of it, read-only but for what the policy leaves writable or hides."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from gpuemu.run import system
from gpuemu.run.protections import Policy

SHARED_MEMORY = "/dev/shm"  # noqa: S108
_PLAIN = system.MS_NOSUID | system.MS_NODEV
_FIRST_PIDS = 300  # pids that Linux gives out only once, before it starts over
_PID_MAX_IS_LOCAL = (6, 14)  # before this kernel, pid_max is the whole machine's
_LISTENS = 0x10000  # in the flags of /proc/net/unix
_SOCKET_PLACES = ("run/*", "run/*/*", "run/user/*/*", "var/run/*")


@dataclass(frozen=True)
class Isolation:
    """What `isolate` left for `confine` and `kill_others` to know."""

    judge: int | None = None  # pid of the judge, None where it has none in our pid namespace
    first: int | None = None  # 1 in a pid namespace of our own
    own_network: bool = False
    private_shared_memory: bool = False
    private_proc: bool = False  # of which only the processes' own folders can be written
    pid_limit: int | None = None
    sockets: tuple[str, ...] | None = None  # those covered; None without a mount namespace


def arrange(policy: Policy, flags: int, isolation: Isolation, sockets: Iterable[str]) -> Isolation:
    """Lay out the mounts, as pid 1. What fails here without a word shows when `confine` tries it."""
    folder = Path.cwd()
    writable = list(policy.writable)
    if flags & system.CLONE_NEWPID:
        mount_proc()
        isolation = replace(isolation, pid_limit=_limit_pids(policy.processes))
    if flags & system.CLONE_NEWUSER:
        with suppress(OSError):  # the kernel's largest attack surface; nothing here needs it
            Path("/proc/sys/user/max_user_namespaces").write_text("0")
    if Path(SHARED_MEMORY).is_dir():
        with suppress(OSError):
            system.mount("gpuemu", SHARED_MEMORY, "tmpfs", _PLAIN, f"mode=1777,size={policy.file_bytes}")
            writable.append(SHARED_MEMORY)
            isolation = replace(isolation, private_shared_memory=True)
    for store in policy.hidden:
        with suppress(OSError):
            empty = _PLAIN | system.MS_NOEXEC | system.MS_RDONLY
            system.mount("gpuemu", store, "tmpfs", empty, "mode=555,size=4k")
    for path in sockets:
        with suppress(OSError):
            system.mount(os.devnull, path, None, system.MS_BIND)
    with suppress(OSError):
        _make_read_only(writable)
        if flags & system.CLONE_NEWPID:
            _open_proc()
            isolation = replace(isolation, private_proc=True)
    os.chdir(folder)  # by name again: it may now lie in another mount
    return replace(isolation, sockets=tuple(sockets))


def mount_proc() -> None:
    """Show this pid namespace in /proc."""
    system.mount("proc", "/proc", "proc", _PLAIN | system.MS_NOEXEC)


def _make_read_only(writable: list[str]) -> None:
    """Everything but some folders; for devices and pipes that makes no difference."""
    for folder in writable:
        system.mount(folder, folder, None, system.MS_BIND)
    system.set_read_only("/", True, recursive=True)
    for folder in writable:
        system.set_read_only(folder, False)


def _open_proc() -> None:
    """Let processes write to their own folders there, and to nothing else.

    CUDA names its threads through /proc/self/task and does not start where it cannot; but /proc/sys belongs to
    the whole machine, and root outside remains its owner in here.
    """
    for entry in list(os.scandir("/proc")):
        if not entry.name.isdigit() and not entry.is_symlink():
            system.mount(entry.path, entry.path, None, system.MS_BIND)  # read-only, as /proc is at this time
    system.set_read_only("/proc", False)


def _limit_pids(processes: int) -> int | None:
    """Bound the pids of this namespace, since the limit on processes does not count for root."""
    if system.kernel_version() < _PID_MAX_IS_LOCAL:
        return None
    path = Path("/proc/sys/kernel/pid_max")
    limit = _FIRST_PIDS + max(processes, 1)
    with suppress(OSError):
        path.write_text(str(limit))
    return limit if path.read_text().strip() == str(limit) else None


def find_sockets() -> list[str]:
    """Unix sockets with a path that may be connected to: some (a container engine's) are a way out.

    NVIDIA's are left alone, since CUDA may need them. Found are those that programs of this network listen on,
    and those in the usual folders, which may belong to another.
    """
    paths: set[Path] = set()
    with suppress(OSError):
        for line in Path("/proc/net/unix").read_text(errors="replace").splitlines()[1:]:
            fields = line.split(maxsplit=7)
            if len(fields) == 8 and fields[7].startswith("/") and int(fields[3], 16) & _LISTENS:
                paths.add(Path(fields[7]))
    for pattern in _SOCKET_PLACES:
        with suppress(OSError):
            paths |= set(Path("/").glob(pattern))
    return sorted(str(path) for path in paths if "nvidia" not in str(path) and is_open_socket(path))


def is_open_socket(path: str | Path) -> bool:
    """Whether one may connect to it."""
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode) and os.access(path, os.W_OK)  # noqa: PTH116
    except OSError:
        return False
