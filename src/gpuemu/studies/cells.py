"""Cells of a study: an op in a dtype on a value class, a few cases a round. A row of the study is a cell's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

from gpuemu.candidates import loader
from gpuemu.corpus.population import Implementation
from gpuemu.model.candidate import Candidate
from gpuemu.model.case import Plan
from gpuemu.model.op import Op
from gpuemu.model.value_class import VALUE_CLASSES
from gpuemu.ops.registry import get_op
from gpuemu.planning.limits import many_case_limits
from gpuemu.planning.plan import make_plan

CASES_PER_CELL = 4


@dataclass(frozen=True)
class Cell:
    """One cell: names of op, dtype and value class, and which round of cases."""

    op: str
    dtype: str
    values: str
    round: int

    @staticmethod
    def parse(item: str) -> Cell:
        """The cell that an item, "op/dtype/value class/round", names."""
        op, dtype, values, number = item.split("/")
        return Cell(op, dtype, values, int(number))

    @property
    def item(self) -> str:
        """The cell as text: what a row is asked for and kept by."""
        return f"{self.op}/{self.dtype}/{self.values}/{self.round}"

    @property
    def op_and_dtype(self) -> str:
        """What tolerances are calibrated per: "op dtype"."""
        return f"{self.op} {self.dtype}"

    def seed(self, seed: int, prefix: str = "") -> int:
        """The seed of the cell's plan under a study's seed; the prefix keeps one study's from another's."""
        text = f"{prefix}{seed}/{self.item}"
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")

    def plan(self, device: str, seed: int, prefix: str = "", layouts: Sequence[str] | None = None) -> Plan:
        """The cell's cases under a study's seed, small enough for a study of many cells."""
        return make_plan(
            get_op(self.op),
            budget=CASES_PER_CELL,
            seed=self.seed(seed, prefix),
            device=device,
            dtypes=[self.dtype],
            layouts=layouts,
            value_classes=[self.values],
            limits=many_case_limits(device),
        )


def value_classes(op: Op) -> tuple[str, ...]:
    """Every value class of an op that has an input which takes one, else "uniform".

    An input of a fixed 8-bit float dtype does not count (`matmul_fp8`).
    """
    free = any(t.low is None and t.high is None and t.dtype in (None, "float32") for t in op.tensors.values())
    return tuple(op.value_classes or VALUE_CLASSES) if free else ("uniform",)


def interleave(groups: Iterable[Iterable[Cell]]) -> Iterator[Cell]:
    """The first cell of each group, then the second of each: neighbours are of different groups.

    With a group per op, shards take about the same time.
    """
    yield from (cell for cell in chain.from_iterable(zip_longest(*groups)) if cell is not None)


def make_candidate(implementation: Implementation, device: str) -> Candidate:
    """An implementation of the population as a candidate on a tier."""
    loader.prepare_tier(device)
    return loader.from_callable(implementation.function, name=implementation.name)
