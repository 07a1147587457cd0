"""One call of a candidate, as plain data, and the two ways of making one: in this process or in a worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch

from gpuemu.model.observation import CandidateException, Crash, GuardFinding

if TYPE_CHECKING:
    from gpuemu.run.guards.red_zone import ArenaPlan

PATTERNS = ("nan", "large", "large", "nan")
"""What uninitialised memory and red zones hold in the first, second, ... call: NaN, or 1e30.

Not in turn, so that a kernel which is wrong in every other call does not look as if it followed them.
"""


@dataclass(frozen=True)
class Returned:
    """What one call gave: outputs, or why there are none, with what was seen beside the candidate.

    outputs: tensors in the order returned; in a worker's answer, copies on the judge's side. aliases: pairs of
    an output's position and the name of the input whose storage it shares. unfilled_loads: places in the
    kernel that loaded masked lanes without a fill value. launches: kernels launched, None where nothing counts
    them.
    """

    outputs: tuple[torch.Tensor, ...] = ()
    malformed: str | None = None
    exception: CandidateException | None = None
    crash: Crash | None = None
    aliases: tuple[tuple[int, str], ...] = ()
    findings: tuple[GuardFinding, ...] = ()
    unfilled_loads: tuple[str, ...] = ()
    launches: int | None = None
    duration_s: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def is_usable(self) -> bool:
        """Whether there are outputs to judge."""
        return self.exception is None and self.crash is None and self.malformed is None


@dataclass(frozen=True)
class Placed:
    """Inputs laid out in the memory that a candidate will see.

    arena: all of it as bytes, red zones included. plan: where each input lies. views: the inputs, on the side
    of whoever placed them; what a call writes to them shows there afterwards.
    """

    arena: torch.Tensor
    plan: ArenaPlan
    views: Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Manner:
    """How a call is made.

    pattern: one of `PATTERNS`. guards: those that act beside the candidate. launching: False switches the
    launches of its Triton kernels off. may_draw: it may draw random numbers.
    """

    pattern: str = PATTERNS[0]
    guards: Sequence[str] = ()
    launching: bool = True
    may_draw: bool = False


class Caller(Protocol):
    """Calls one candidate, wherever it lives."""

    def place(self, inputs: Mapping[str, torch.Tensor], pattern: str) -> Placed:
        """Copy inputs to where the candidate will find them. What was placed before is given up."""

    def call(self, placed: Placed, params: Mapping[str, Any], manner: Manner) -> Returned:
        """Call the candidate once. Never raises for what it does."""


class Watch(Protocol):
    """What was seen of the kernels that ran within a scope (Triton's interpreter)."""

    findings: list[GuardFinding]
    unfilled_loads: list[str]
    launches: int


Scope = Callable[[], AbstractContextManager[Any]]
WatchScope = Callable[[Manner], AbstractContextManager[Watch | None]]
