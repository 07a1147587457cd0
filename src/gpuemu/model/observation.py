"""What happened when a candidate ran on a case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class CandidateException:
    """An exception that the candidate raised: type name, first line of its message, where in its file."""

    type: str
    message: str
    location: str = ""
    refused: bool = False


@dataclass(frozen=True)
class GuardFinding:
    """A guard fired: its name and one sentence on what it saw."""

    guard: str
    message: str


@dataclass(frozen=True)
class Observation:
    """Outputs, or the exception that prevented them, with what the guards saw.

    outputs: tensors in the order returned. malformed: why the return value is not a tuple of tensors, if so.
    """

    outputs: tuple[torch.Tensor, ...] = ()
    exception: CandidateException | None = None
    malformed: str | None = None
    findings: tuple[GuardFinding, ...] = ()
    duration_s: float = 0.0
    notes: tuple[str, ...] = ()
