"""Attributes of other modules and classes that are replaced for a while, and put back as they were."""

from __future__ import annotations

from typing import Any

ABSENT = object()  # stands for an attribute that was not there before


class ReplacedAttributes:
    """What stood in the place of each replaced attribute, the latest last."""

    def __init__(self) -> None:
        self._saved: list[tuple[Any, str, Any]] = []

    def __bool__(self) -> bool:
        return bool(self._saved)

    def replace(self, target: Any, name: str, value: Any) -> None:
        """Set an attribute, remembering what the target's own namespace held."""
        self._saved.append((target, name, vars(target).get(name, ABSENT)))
        setattr(target, name, value)

    def restore(self) -> None:
        """Put everything back, the latest first."""
        while self._saved:
            target, name, value = self._saved.pop()
            if value is ABSENT:
                delattr(target, name)
            else:
                setattr(target, name, value)
