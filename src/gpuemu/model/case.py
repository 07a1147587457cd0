"""A case: everything that determines one test. Inputs are a pure function of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from gpuemu.model.canonical import canonical_json, short_id


@dataclass(frozen=True)
class Case:
    """One test of an op.

    dims: size per dim. dtype: the case's dtype. layouts, value_classes: one name per input. params: one value
    per parameter. seed: 0 <= seed < 2^64.
    """

    op: str
    dims: Mapping[str, int]
    dtype: str
    layouts: Mapping[str, str]
    value_classes: Mapping[str, str]
    params: Mapping[str, Any]
    seed: int

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; inverse of `from_json`."""
        return {
            "op": self.op,
            "dims": dict(self.dims),
            "dtype": self.dtype,
            "layouts": dict(self.layouts),
            "value_classes": dict(self.value_classes),
            "params": dict(self.params),
            "seed": str(self.seed),  # 64-bit integers do not survive JSON numbers
        }

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Case:
        """The case of a JSON document written by `to_json`."""
        return Case(
            op=document["op"],
            dims={name: int(size) for name, size in document["dims"].items()},
            dtype=document["dtype"],
            layouts=dict(document["layouts"]),
            value_classes=dict(document["value_classes"]),
            params=dict(document["params"]),
            seed=int(document["seed"]),
        )

    @cached_property
    def canonical(self) -> str:
        """Canonical JSON text."""
        return canonical_json(self.to_json())

    @cached_property
    def id(self) -> str:
        """First 16 hexadecimal digits of the SHA-256 of the canonical JSON."""
        return short_id(self.to_json())

    def with_changes(self, **changes: Any) -> Case:
        """A copy with other field values."""
        return replace(self, **changes)

    @property
    def is_contiguous(self) -> bool:
        """Whether every input is contiguous."""
        return all(layout == "contiguous" for layout in self.layouts.values())

    def summary(self) -> str:
        """One short line for people: dims, dtype and what departs from the plain case."""
        parts = [" ".join(f"{name}={size}" for name, size in self.dims.items()), self.dtype]
        parts.append(_compress(self.value_classes))
        if not self.is_contiguous:
            parts.append(_compress(self.layouts))
        parts += [f"{name}={value}" for name, value in self.params.items()]
        return ", ".join(part for part in parts if part)


def _compress(choice: Mapping[str, str]) -> str:
    if len(set(choice.values())) == 1:
        return next(iter(choice.values()))
    return " ".join(f"{name}:{value}" for name, value in choice.items())


@dataclass(frozen=True)
class Plan:
    """An ordered list of cases within a budget, frozen before the candidate is imported.

    notes: what the planner restricted and why, in plain sentences.
    """

    op: str
    strategy: str
    seed: int
    cases: tuple[Case, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def digest(self) -> str:
        """SHA-256 prefix over the case ids in their order."""
        return short_id([case.id for case in self.cases])
