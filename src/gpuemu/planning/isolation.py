"""Dense hard values: one input at a time, and lines so short that some of them stay clean.

On every input of an op, and along rows of any length, values such as `adversarial` and `nan_injected` make
every result NaN, a wrong kernel's too: the evidence is gone (ORACLE.md section 3). What a class draws is left
as published; the plan chooses where it goes. In each case one input has it and the others plain values. The
inputs take turns; from turn to turn an input goes through these sizes:

- for each of its dims: that dim so short that a quarter of the lines along it hold no NaN or infinity, the
  others well into a second tile (in odd turns just past a first), and several rows;
- every dim just past a tile, the shortest that a loop over tiles repeats for, but many lines: hardly one is
  clean, some hold infinities of one sign alone, and a right result is one;
- again each dim short, and then once the sizes that were planned.

Each `EVERYWHERE`-th case is left as it was planned, hard in all inputs. So is a plan without dense classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gpuemu.model import expression
from gpuemu.model.op import Op
from gpuemu.model.value_class import DEFAULT_VALUE_CLASSES, VALUE_CLASSES
from gpuemu.planning.choice import Chooser
from gpuemu.planning.covering import Levels
from gpuemu.planning.limits import Limits, fits

EVERYWHERE = 8
TILES = (32,)  # where a kernel's own are not known
ROWS = 8  # at most so many where a line is short, and at least half as many
MANY = 4  # tiles of lines where hardly one is clean
SIZE_CHOICES = 6
SHORT_PLAIN, LONG_PLAIN = ("bell", "uniform"), ("uniform", "bell")
VALUES = "values "
EDGE = ""  # in place of the name of a short dim

Sizes = Mapping[str, Mapping[str, tuple[int, ...]]]


@dataclass
class Isolation:
    """Thins the hard values of one plan's cases, which it sees in their order.

    sizes: of every dim, by boundary class. batch: dims that only add programs. tiles: the kernel's tile sizes.
    """

    op: Op
    sizes: Sizes
    batch: frozenset[str]
    limits: Limits
    tiles: Sequence[int]
    seed: int
    _chooser: Chooser = field(init=False)
    _first: int = field(init=False)
    _seen: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.tiles = self.tiles or TILES
        self._chooser = Chooser(self.seed, f"isolation/{self.op.name}")
        self._first = self._chooser.word()

    def apply(self, levels: Levels, dims: Mapping[str, int]) -> tuple[Levels, Mapping[str, int]]:
        """The levels and sizes of the plan's next case."""
        hard = [name for name in self.op.tensors if _is_dense(levels.get(VALUES + name))]
        if not hard:
            return levels, dims
        seen, self._seen = self._seen, self._seen + 1
        if seen % EVERYWHERE == EVERYWHERE - 1:
            return levels, dims
        kept, turn = hard[(seen + self._first) % len(hard)], seen // len(hard)
        short = self._pick_short(kept, turn)
        levels = dict(levels)
        for name in hard:
            if name != kept:
                levels[VALUES + name] = self._plain(name, levels[VALUES + name], short is None)
        if short is None:
            return levels, dims
        longest = VALUE_CLASSES[levels[VALUES + kept]].clean_length
        return levels, self._resize(dims, short, longest, turn, frozenset() if short else self._counting(kept))

    def _pick_short(self, name: str, turn: int) -> str | None:
        """The dim of an input that is short in its turn; EDGE: none, all just past a tile; None: as planned."""
        axes = reversed(self.op.tensors[name].axes)
        named = dict.fromkeys(dim for axis in axes for dim in sorted(expression.names(axis)))
        dims: list[str | None] = [dim for dim in named if dim not in self.batch]
        choices = [*dims, EDGE, *dims, None]
        return choices[turn % len(choices)]

    def _counting(self, kept: str) -> frozenset[str]:
        """The dims that count an input's lines: it alone has them, as only the first matrix of a product has M.

        Of an input that shares no dim, those of its last axis are taken to run along the lines.
        """
        own = self._dims_of(kept)
        shared = {dim for name in self.op.tensors if name != kept for dim in self._dims_of(name)}
        last = self.op.tensors[kept].axes[-1:]
        along = own & shared or {dim for axis in last for dim in expression.names(axis)}
        return frozenset(own - along - self.batch)

    def _dims_of(self, name: str) -> set[str]:
        return {dim for axis in self.op.tensors[name].axes for dim in expression.names(axis)}

    def _plain(self, name: str, drawn: str, is_planned: bool) -> str:
        """A plain class that the input admits; else what was drawn for it."""
        tensor = self.op.tensors[name]
        admitted = tensor.value_classes or self.op.value_classes or DEFAULT_VALUE_CLASSES
        preferred = LONG_PLAIN if is_planned else SHORT_PLAIN
        return next((plain for plain in preferred if plain in admitted), drawn)

    def _resize(
        self, dims: Mapping[str, int], short: str, longest: int | None, turn: int, counting: frozenset[str]
    ) -> Mapping[str, int]:
        """The sizes with one dim short, the others long and several rows, as far as is admissible.

        counting: dims that are to be of many tiles.
        """
        if short and longest is not None:
            dims = self._replace(dims, short, lambda size: 1 < size <= longest)
        edge, second = min(self.tiles), max(self.tiles) * 3 // 2
        at_edge = turn % 2 or not short
        for name in sorted(self.op.domains, key=counting.__contains__):  # large ones last, beside small ones
            if name in self.batch:
                rows = _several(math.prod(dims[other] for other in self.batch if other != name))
                dims = self._replace(dims, name, rows)
            elif name in counting:
                dims = self._replace(dims, name, lambda size: size >= edge * MANY)
            elif name != short and at_edge:
                dims = self._replace(dims, name, lambda size: edge < size <= edge * 5 // 4)
            elif name != short:
                dims = self._replace(dims, name, lambda size: size >= second)
        return dims

    def _replace(self, dims: Mapping[str, int], name: str, suits: Callable[[int], bool]) -> Mapping[str, int]:
        """The sizes with another one for a dim that does not suit: of the smallest that do, if possible those
        that are no power of two."""
        if suits(dims[name]) and not _is_power(dims[name]):
            return dims
        known = sorted({size for sizes in self.sizes[name].values() for size in sizes if suits(size)})
        awkward = [size for size in known if not _is_power(size)]
        changed = [{**dims, name: size} for size in (awkward or known)[:SIZE_CHOICES]]
        fitting = [
            new for new in changed if self.op.admits(new) and fits(self.op, new, self.limits, self.batch)
        ]
        return self._chooser.pick(fitting) if fitting else dims


def _several(others: int) -> Callable[[int], bool]:
    """Whether a size of a dim makes several rows of `others`, the product of the other such dims."""
    return lambda size: ROWS <= 2 * others * size <= 2 * ROWS


def _is_power(size: int) -> bool:
    return size & (size - 1) == 0


def _is_dense(value_class: str | None) -> bool:
    return value_class is not None and VALUE_CLASSES[value_class].dense
