"""What happened when a candidate ran on a case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


REPEATS = 2  # how often a candidate is called on the inputs of a case, unless asked otherwise


@dataclass(frozen=True)
class CandidateException:
    """An exception that the candidate raised: type name, first line of its message, where in its file."""

    type: str
    message: str
    location: str = ""
    refused: bool = False


@dataclass(frozen=True)
class Crash:
    """The candidate's process gave no answer. kind: `Kind`'s crash, hang, memory, output_size or protocol."""

    kind: str
    message: str


@dataclass(frozen=True)
class GuardFinding:
    """A guard fired: its name and one sentence on what it saw."""

    guard: str
    message: str


@dataclass(frozen=True)
class Slice:
    """A part of a case, to be run alone: the elements `start` to `start + width` of one dim.

    size: of the dim in the whole case. inputs: contiguous copies, in call order. output_axes: per output, which
    of its axes is the dim, None where it has none; empty where the op does not declare its outputs.
    """

    dim: str
    size: int
    start: int
    width: int
    inputs: Mapping[str, torch.Tensor]
    output_axes: tuple[int | None, ...] = ()

    def describe(self) -> str:
        """ "B = 3 of 8, run alone,": the subject of a sentence."""
        last = self.start + self.width - 1
        place = str(self.start) if self.width == 1 else f"{self.start} to {last}"
        return f"{self.dim} = {place} of {self.size}, run alone,"


@dataclass(frozen=True)
class Observation:
    """Outputs, or the exception or crash that prevented them, with what the guards saw.

    outputs: tensors in the order returned. malformed: why the return value is not a tuple of tensors, if so.
    calls: how often the candidate was called on these inputs. repeats: outputs of further calls that differ
    from the first in some bit, by the number of the call (2 for the second).
    fresh: outputs for other values in the same storage, where that was asked for. unfilled_loads: places in the
    kernel that loaded masked lanes without a fill value. launches: of kernels in the first call, None where
    nothing counts them. idle_outputs: outputs of a call whose launches were switched off.
    notes: what calling it left out, in plain sentences, for a failure's message.
    """

    outputs: tuple[torch.Tensor, ...] = ()
    exception: CandidateException | None = None
    malformed: str | None = None
    findings: tuple[GuardFinding, ...] = ()
    calls: int = 1
    repeats: Mapping[int, tuple[torch.Tensor, ...]] = field(default_factory=dict)
    fresh: tuple[torch.Tensor, ...] | None = None
    unfilled_loads: tuple[str, ...] = ()
    launches: int | None = None
    idle_outputs: tuple[torch.Tensor, ...] | None = None
    duration_s: float = 0.0
    notes: tuple[str, ...] = ()
    crash: Crash | None = None
