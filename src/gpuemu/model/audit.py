"""What other projects' rules say about the outputs that a run judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuemu.model.canonical import encode_float


@dataclass(frozen=True)
class RuleCount:
    """In how many cases a rule accepts, rejects and cannot judge."""

    accepted: int = 0
    rejected: int = 0
    abstained: int = 0


@dataclass(frozen=True)
class Disagreement:
    """A case on which a rule and gpuemu differ, with the element that decides.

    accepts: what the rule says; gpuemu says the opposite. index: row-major, within the output; it is the rule's
    witness where the rule rejects, and gpuemu's worst element where it accepts. error_bound_units: of gpuemu's
    worst element; rule_score: the rule's own error over its tolerance.
    """

    rule: str
    accepts: bool
    case_id: str
    summary: str
    output: int
    index: int
    actual: float
    expected: float
    error_bound_units: float
    rule_score: float

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {k: encode_float(v) if isinstance(v, float) else v for k, v in vars(self).items()}


@dataclass(frozen=True)
class Audit:
    """Counts per rule, "gpuemu" among them, and every disagreement."""

    rules: Mapping[str, RuleCount] = field(default_factory=dict)
    disagreements: tuple[Disagreement, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "rules": {name: vars(count) for name, count in self.rules.items()},
            "disagreements": [disagreement.to_json() for disagreement in self.disagreements],
        }
