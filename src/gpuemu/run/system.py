"""System calls that Python's library lacks, each raising OSError like those it has. Linux only."""

from __future__ import annotations

import ctypes
import functools
import os
import platform

CLONE_NEWNS = 0x0002_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 1 << 12, 1 << 14, 1 << 18
MNT_DETACH = 2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_READ = 23
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4

SYS_MOUNT_SETATTR = 442  # this number, and all later ones, are the same on every architecture
_MOUNT_ATTR_RDONLY = 1
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_CAPABILITY_VERSION_3 = 0x2008_0522


def is_linux() -> bool:
    """True where any of this can work."""
    return platform.system() == "Linux"


def kernel_version() -> tuple[int, int]:
    """(6, 18) for "6.18.44-whatever"."""
    major, minor = platform.release().split(".")[:2]
    return int(major), int("".join(filter(str.isdigit, minor)) or 0)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def syscall(number: int, *arguments: object) -> int:
    """Any system call; integers are passed as C longs, other ctypes values as they are."""
    passed = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return _checked(_libc().syscall(ctypes.c_long(number), *passed))


def prctl(option: int, value: int = 0, third: int = 0) -> int:
    """Operations on the calling thread or process."""
    zero = ctypes.c_ulong(0)
    return _checked(_libc().prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(third), zero, zero))


def unshare(flags: int) -> None:
    """Move this process, or with CLONE_NEWPID its next children, to new namespaces."""
    _checked(_libc().unshare(flags))


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """mount(2)."""
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    _checked(_libc().mount(*texts[:3], ctypes.c_ulong(flags), texts[3]))


def umount(target: str) -> None:
    """Detach a mount."""
    _checked(_libc().umount2(os.fsencode(target), MNT_DETACH))


def set_read_only(target: str, read_only: bool, recursive: bool = False) -> None:
    """Make a mount, or with `recursive` all mounts below it as well, read-only or writable (Linux 5.12)."""
    bits = (_MOUNT_ATTR_RDONLY, 0) if read_only else (0, _MOUNT_ATTR_RDONLY)
    attributes = (ctypes.c_uint64 * 4)(*bits, 0, 0)
    path = ctypes.c_char_p(os.fsencode(target))
    flags = _AT_RECURSIVE if recursive else 0
    syscall(SYS_MOUNT_SETATTR, _AT_FDCWD, path, flags, ctypes.byref(attributes), ctypes.sizeof(attributes))


def drop_capabilities() -> None:
    """Give up every capability of this thread for good, in the bounding set too where that is permitted."""
    for capability in range(64):
        try:
            if prctl(PR_CAPBSET_READ, capability):
                prctl(PR_CAPBSET_DROP, capability)
        except OSError:  # beyond the last capability, or not permitted
            continue
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _checked(_libc().capset(header, nothing))


class _Span(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def may_read_memory(pid: int) -> bool:
    """Whether this process may read another's memory: by reading at address 0, where nothing is mapped."""
    byte = ctypes.create_string_buffer(1)
    here, there = _Span(ctypes.addressof(byte), 1), _Span(0, 1)
    arguments = (
        ctypes.byref(here),
        ctypes.c_ulong(1),
        ctypes.byref(there),
        ctypes.c_ulong(1),
        ctypes.c_ulong(0),
    )
    try:
        _checked(_libc().process_vm_readv(pid, *arguments))
    except OSError as error:
        if not isinstance(error, PermissionError | ProcessLookupError):
            return True
    try:
        os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY))
    except OSError:
        return False
    return True
