"""Calling a candidate in this process: for trusted kernels; the record says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch

from gpuemu.model.candidate import Candidate
from gpuemu.model.observation import REPEATS, Observation, Slice
from gpuemu.model.op import Contract
from gpuemu.run.callee import Callee, unwatched
from gpuemu.run.calling import Manner, Placed, Returned, Scope, WatchScope
from gpuemu.run.guards import red_zone
from gpuemu.run.observing import Observer

Inputs = Mapping[str, torch.Tensor]


class InlineCaller:
    """Calls a candidate in this process, on the device where its inputs are."""

    def __init__(self, candidate: Candidate, scope: Scope = nullcontext, watch: WatchScope = unwatched) -> None:
        self._callee = Callee(candidate, scope, watch)
        self._placed: Placed | None = None

    def place(self, inputs: Inputs, pattern: str) -> Placed:
        """Copy inputs into memory with red zones; the same as before, if they lie alike."""
        plan = red_zone.plan_arena(inputs)
        placed = self._placed
        if placed is None or placed.plan != plan:
            device = next(iter(inputs.values())).device if inputs else torch.device("cpu")
            arena = torch.empty(plan.size_bytes, dtype=torch.uint8, device=device)
            placed = Placed(arena, plan, red_zone.views(arena, plan))
            self._placed = placed
        red_zone.fill(placed.arena, plan, inputs, pattern)
        return placed

    def call(self, placed: Placed, params: Mapping[str, Any], manner: Manner) -> Returned:
        """Call the candidate; outputs are copies, since a later call may write into an earlier one's."""
        returned = self._callee.call(placed.views, params, manner)
        return replace(returned, outputs=tuple(output.clone() for output in returned.outputs))


def observe(
    candidate: Candidate,
    inputs: Inputs,
    params: Mapping[str, Any],
    contract: Contract,
    guards: Sequence[str] = (),
    scope: Scope = nullcontext,
    calls: int = REPEATS,
    slices: Sequence[Slice] = (),
) -> Observation:
    """Call a candidate in this process on copies of the inputs and say what happened (`Observer.observe`)."""
    observer = Observer(InlineCaller(candidate, scope), inputs, params, contract, guards)
    return observer.observe(calls, slices)
