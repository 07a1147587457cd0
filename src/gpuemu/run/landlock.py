"""Landlock: a thread takes rights to files, signals and sockets away from itself and its children, for good."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from gpuemu.run import system

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULE_PATH_BENEATH = 1

# Rights to files, from linux/landlock.h.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_REMOVE_AND_MAKE = 0x1FF0  # the bits 4 to 12: remove a folder or file, make any kind of node
_REFER, _TRUNCATE = 1 << 13, 1 << 14  # since ABI 2 and 3
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_TCP = 3  # bind and connect, since ABI 4
_SCOPES = 3  # abstract unix sockets and signals, since ABI 6


def get_abi() -> int:
    """The version of Landlock that this kernel speaks, 0 for none."""
    try:
        return system.syscall(_CREATE_RULESET, 0, 0, 1)
    except OSError:
        return 0


class Ruleset:
    """What will remain allowed. Writing is always restricted; reading where `reads` is true."""

    def __init__(self, abi: int, reads: bool, tcp: bool) -> None:
        self._writes = _WRITE_FILE | _REMOVE_AND_MAKE
        self._writes |= (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0)
        self._reads = _READ_FILE | _READ_DIR
        handled = self._writes | (self._reads if reads else 0)
        attributes = (ctypes.c_uint64 * 3)(handled, _TCP if tcp and abi >= 4 else 0, _SCOPES if abi >= 6 else 0)
        size = 24 if abi >= 6 else 16 if abi >= 4 else 8
        self._handled = handled
        self._file = system.syscall(_CREATE_RULESET, ctypes.byref(attributes), size, 0)

    def allow_writing(self, path: str | Path) -> None:
        """Everything at or below a path."""
        self._allow(path, self._writes | self._reads)

    def allow_changing(self, path: str | Path) -> None:
        """Writing to the files that exist at or below a path."""
        self._allow(path, _WRITE_FILE | _TRUNCATE)

    def allow_reading(self, path: str | Path) -> None:
        """Reading at or below a path."""
        self._allow(path, self._reads)

    def allow_listing(self, path: str | Path) -> None:
        """Listing the folders at or below a path, not reading their files."""
        self._allow(path, _READ_DIR)

    def _allow(self, path: str | Path, rights: int) -> None:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:  # what is not there, or cannot be reached, needs no rule
            return
        try:
            if not stat.S_ISDIR(os.fstat(place).st_mode):
                rights &= _OF_FILES
            rights &= self._handled
            if rights:
                rule = ctypes.create_string_buffer(
                    rights.to_bytes(8, "little") + place.to_bytes(4, "little"), 12
                )  # packed; every architecture that has both CUDA and Landlock is little-endian
                system.syscall(_ADD_RULE, self._file, _RULE_PATH_BENEATH, rule, 0)
        finally:
            os.close(place)

    def enforce(self) -> None:
        """Restrict this thread and its future children; needs no_new_privs."""
        try:
            system.syscall(_RESTRICT_SELF, self._file, 0)
        finally:
            os.close(self._file)


def list_beside(hidden: Iterable[Path]) -> list[Path]:
    """Everything outside the hidden folders: what lies beside them and beside each folder above them."""
    covered = {folder.resolve() for folder in hidden}
    above = {parent for folder in covered for parent in folder.parents}
    beside = []
    for folder in above - covered:
        try:
            entries = list(folder.iterdir())
        except OSError:
            continue
        beside += [entry for entry in entries if not entry.is_symlink() and entry not in above | covered]
    return beside
