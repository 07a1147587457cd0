"""Expected values kept by content: they depend on (op digest, case, profile), never on a candidate."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")
DEFAULT_LIMIT_BYTES = 512 << 20


class ExpectedCache(Generic[T]):
    """Least-recently-used entries within a memory limit; an entry larger than the limit is not kept."""

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.size_bytes = 0
        self._entries: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()

    def get(self, key: Hashable) -> T | None:
        """The entry of a key, or None."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: Hashable, value: T, size_bytes: int) -> None:
        """Keep an entry, dropping the least recently used ones until the limit holds."""
        if size_bytes > self.limit_bytes or key in self._entries:
            return
        self._entries[key] = (value, size_bytes)
        self.size_bytes += size_bytes
        while self.size_bytes > self.limit_bytes:
            _, (_, freed) = self._entries.popitem(last=False)
            self.size_bytes -= freed

    def __len__(self) -> int:
        return len(self._entries)
