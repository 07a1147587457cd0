"""Distributions of scores (largest error of a run over its bound), small enough to be recorded."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Upper ends of the bins; a last bin holds what is larger. 0 is a run whose every element is correctly rounded.
EDGES = (0.0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True)
class Scores:
    """How many scores fell into each bin, and the largest."""

    counts: tuple[int, ...] = field(default=(0,) * (len(EDGES) + 1))
    largest: float = 0.0

    def with_score(self, score: float) -> Scores:
        """One more score."""
        position = bisect_left(EDGES, score)
        counts = tuple(count + (i == position) for i, count in enumerate(self.counts))
        return Scores(counts, max(self.largest, score))

    def __add__(self, other: Scores) -> Scores:
        return Scores(
            tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)),
            max(self.largest, other.largest),
        )

    @property
    def total(self) -> int:
        return sum(self.counts)

    def quantile(self, share: float) -> float:
        """The upper end of the bin that holds this quantile: at most this was scored by that share of runs."""
        seen = 0
        for count, edge in zip(self.counts, (*EDGES, math.inf), strict=True):
            seen += count
            if seen >= share * self.total:
                return min(edge, self.largest)
        return self.largest

    def to_json(self) -> dict[str, Any]:
        return {"counts": list(self.counts), "largest": self.largest if math.isfinite(self.largest) else "inf"}

    @staticmethod
    def from_json(document: Mapping[str, Any] | None) -> Scores:
        """The scores of a document; none for None."""
        if document is None:
            return Scores()
        return Scores(tuple(document["counts"]), float(document["largest"]))


def merge_scores(table: dict[str, Any], key: str, document: Mapping[str, Any]) -> None:
    """Add the scores of a document to those under a key of a table of documents."""
    table[key] = (Scores.from_json(table.get(key)) + Scores.from_json(document)).to_json()
