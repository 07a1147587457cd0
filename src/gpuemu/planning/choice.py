"""Deterministic choices for the planner: a counter hashed with BLAKE2b, the same on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Chooser:
    """Draws that depend only on (seed, path) and on how many were drawn before."""

    def __init__(self, seed: int, path: str) -> None:
        self._prefix = seed.to_bytes(8, "little") + path.encode()
        self._count = 0

    def word(self) -> int:
        """The next 64-bit integer."""
        digest = hashlib.blake2b(self._prefix + self._count.to_bytes(8, "little"), digest_size=8).digest()
        self._count += 1
        return int.from_bytes(digest, "little")

    def below(self, bound: int) -> int:
        """An integer in [0, bound). The bias of the multiply-shift, bound/2^64, is immaterial here."""
        return (self.word() * bound) >> 64

    def pick(self, items: Sequence[T]) -> T:
        """One item of a non-empty sequence."""
        return items[self.below(len(items))]
