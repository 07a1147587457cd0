"""What became of a metamorphic relation on one case."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RelationStatus(StrEnum):
    """Outcome of one relation on one case."""

    HOLDS = "holds"
    VIOLATED = "violated"
    NOT_JUDGED = "not_judged"  # the inputs do not lend themselves to it, or nothing bounds the difference


@dataclass(frozen=True)
class RelationResult:
    """One relation on one case.

    elements: how many were judged. score: the largest difference over what is allowed.
    """

    name: str
    status: RelationStatus
    message: str
    elements: int = 0
    score: float = 0.0
