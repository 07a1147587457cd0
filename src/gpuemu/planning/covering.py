"""A greedy covering design: each further case covers the most pairs of axis levels not yet seen together.

The construction is that of AETG (Cohen, Dalal, Fredman, Patton, "The AETG system", IEEE TSE 23(7), 1997): draw
a number of candidates, keep the one with the most uncovered pairs. Shape alone, value alone or layout alone
miss many real bugs (BUGS.md section 2); their pairs do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from gpuemu.planning.choice import Chooser

CANDIDATES_PER_CASE = 24
DRAWS_PER_CANDIDATE = 200
LEVEL_WEIGHT = 4  # a level not seen at all counts as this many pairs, so that few cases touch every level

Levels = Mapping[str, Any]


@dataclass(frozen=True)
class Axis:
    """One thing that a case chooses: a name and its levels.

    levels: hashable. favoured: a level drawn half of the time, for axes whose plain level makes the strongest
    test of the others ("contiguous").
    """

    name: str
    levels: Sequence[Any]
    favoured: Any = None
    _favour: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_favour", self.favoured in self.levels and len(self.levels) > 1)

    def draw(self, chooser: Chooser) -> Any:
        """One level."""
        if self._favour and chooser.below(2) == 0:
            return self.favoured
        return chooser.pick(self.levels)


def cover(
    axes: Sequence[Axis],
    chooser: Chooser,
    first: Sequence[Sequence[Levels]],
    complete: Callable[[Levels, Chooser], Mapping[str, Any] | None],
) -> Iterator[tuple[Levels, Mapping[str, Any]]]:
    """Endless sequence of (levels, completed choice).

    Args:
        axes: what to cross.
        first: the anchors, cases before any search; of each one's alternatives the first admissible counts.
        complete: turns levels into concrete sizes, or None where constraints or limits forbid them.

    Stops when no admissible choice is found in `DRAWS_PER_CANDIDATE` draws.
    """
    covered: set[tuple[str, Any, str, Any]] = set()
    seen: set[tuple[str, Any]] = set()
    for alternatives in first:
        for levels in alternatives:
            completed = complete(levels, chooser)
            if completed is not None:
                covered.update(_pairs(levels))
                seen.update(levels.items())
                yield levels, completed
                break
    while True:
        best: tuple[int, Levels, Mapping[str, Any]] | None = None
        for _ in range(CANDIDATES_PER_CASE):
            drawn = _draw(axes, chooser, complete)
            if drawn is None:
                continue
            gain = _gain(drawn[0], covered, seen)
            if best is None or gain > best[0]:
                best = (gain, *drawn)
        if best is None:
            return
        covered.update(_pairs(best[1]))
        seen.update(best[1].items())
        yield best[1], best[2]


def _gain(levels: Levels, covered: Set[tuple[str, Any, str, Any]], seen: Set[tuple[str, Any]]) -> int:
    pairs = sum(pair not in covered for pair in _pairs(levels))
    return pairs + LEVEL_WEIGHT * sum(item not in seen for item in levels.items())


def _draw(
    axes: Sequence[Axis], chooser: Chooser, complete: Callable[[Levels, Chooser], Mapping[str, Any] | None]
) -> tuple[Levels, Mapping[str, Any]] | None:
    for _ in range(DRAWS_PER_CANDIDATE):
        levels = {axis.name: axis.draw(chooser) for axis in axes}
        completed = complete(levels, chooser)
        if completed is not None:
            return levels, completed
    return None


def _pairs(levels: Levels) -> Iterator[tuple[str, Any, str, Any]]:
    for (name_a, a), (name_b, b) in combinations(levels.items(), 2):
        yield name_a, a, name_b, b
