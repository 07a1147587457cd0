"""Memory that the judge and a candidate's process share: bytes without a name, of a size that stays.

Sealed against shrinking, so that a candidate cannot take away pages that the judge is reading (that would end
the judge by SIGBUS), and against growing, so that it cannot fill the machine's memory (fcntl(2), F_ADD_SEALS).
"""

from __future__ import annotations

import fcntl
import mmap
import os

import torch

PUNCHED_BYTES = 1 << 26  # what is larger goes back to the machine after a call


class SharedMemory:
    """A mapping of `size_bytes`; pages cost memory only once they are written. file: to hand to the worker."""

    def __init__(self, size_bytes: int, file: int | None = None) -> None:
        if file is None:
            file = os.memfd_create("gpuemu", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(file, size_bytes)
            seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
        self.file, self.size_bytes = file, size_bytes
        self._map = mmap.mmap(file, size_bytes)
        self.bytes = torch.frombuffer(self._map, dtype=torch.uint8)

    def release(self, used_bytes: int) -> None:
        """Give the pages of the first bytes back to the machine, if they are many; they read as zero then."""
        if used_bytes > PUNCHED_BYTES:
            self._map.madvise(mmap.MADV_REMOVE)

    def close(self) -> None:
        """Close the file; the mapping goes with the last tensor of it."""
        os.close(self.file)
