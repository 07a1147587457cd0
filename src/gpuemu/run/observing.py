"""Observing a candidate on one case: the calls of it, and what the guards on the judge's side saw.

The same for every `Caller`. Inputs are laid out anew before each call, with another content of red zones and
uninitialised memory, so that what a kernel reads there shows as a difference between calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from gpuemu.model.observation import REPEATS, GuardFinding, Observation, Slice
from gpuemu.model.op import Contract
from gpuemu.run.calling import PATTERNS, Caller, Manner, Placed, Returned
from gpuemu.run.guards import SEEN_BESIDE, alias, batch_invariance, mutation, poison, red_zone, repeat, state

Inputs = Mapping[str, torch.Tensor]


class Observer:
    """Calls a candidate on the inputs of one case, which it never hands out themselves.

    guards: names of `gpuemu.run.guards.GUARDS` to apply. may_draw: the op draws random numbers.
    """

    def __init__(
        self,
        caller: Caller,
        inputs: Inputs,
        params: Mapping[str, Any],
        contract: Contract,
        guards: Sequence[str] = (),
        may_draw: bool = False,
    ) -> None:
        self._caller, self._inputs, self._params = caller, inputs, params
        self._contract, self._guards = contract, guards
        self._may_draw = may_draw or not contract.deterministic
        self._placed: Placed | None = None

    def observe(self, calls: int = REPEATS, slices: Sequence[Slice] = (), idle: bool = False,
                fresh: Inputs | None = None) -> Observation:  # fmt: skip
        """Call the candidate and say what happened. Never raises for what the candidate does.

        Args:
            calls: how often it is called on the inputs, with the guard "repeat"; without, once.
            slices: parts of the case to run alone, with the guard "batch_invariance".
            fresh: other values for the same storages, called with last.
            idle: call it once with the launches of its Triton kernels switched off.

        Raises:
            OpDefinitionError: a slice's dim cannot be found among the outputs' axes.
        """
        first, findings = self._call(1)
        if not first.is_usable:
            return _without_outputs(first)
        permitted = (*self._contract.mutates, *self._contract.aliases)
        if "alias" in self._guards:
            findings.append(alias.judge(first.aliases, permitted))
        calls = max(calls, 1) if "repeat" in self._guards else 1
        observed = Observation(
            outputs=first.outputs, calls=1, duration_s=first.duration_s, notes=first.notes,
            unfilled_loads=first.unfilled_loads, launches=first.launches,
        )  # fmt: skip
        observed, more = self._repeat(observed, calls)
        findings += more
        if observed.exception is None and observed.crash is None and not observed.repeats:
            if batch_invariance.NAME in self._guards:
                findings += [self._run_alone(first, part) for part in slices]
            if idle and first.launches:
                observed = replace(observed, idle_outputs=self._call_idle())
            if fresh is not None:
                observed = replace(observed, fresh=self._call_fresh(fresh))
        if observed.repeats:  # numbers that it drew are best told by what they did
            findings = [finding for finding in findings if finding is None or finding.guard != state.NAME]
        seen = tuple(dict.fromkeys(finding for finding in findings if finding is not None))
        return replace(observed, findings=seen)

    def repeat(self, observation: Observation, calls: int) -> Observation:
        """Further calls on the same inputs, up to `calls` in all, added to what was observed."""
        if observation.exception or observation.crash or observation.malformed:
            return observation
        observed, findings = self._repeat(observation, calls)
        more = (finding for finding in findings if finding is not None)
        return replace(observed, findings=tuple(dict.fromkeys((*observed.findings, *more))))

    def _call(self, number: int) -> tuple[Returned, list[GuardFinding | None]]:
        """The call of this number, 1 for the first, and what it did to memory that is not its own."""
        pattern = PATTERNS[(number - 1) % len(PATTERNS)]
        self._placed = placed = self._caller.place(self._inputs, pattern)
        watched = "mutation" in self._guards or "red_zone" in self._guards
        before = placed.arena.clone() if watched else None
        returned = self._caller.call(placed, self._params, self._manner(pattern))
        findings: list[GuardFinding | None] = list(returned.findings)
        if before is None or returned.crash is not None or torch.equal(placed.arena, before):
            return returned, findings
        if "red_zone" in self._guards:
            findings.append(red_zone.compare(placed.arena, before, placed.plan))
        if "mutation" in self._guards:
            kept = [name for name in self._inputs if name not in self._contract.mutates]
            was = red_zone.views(before, placed.plan)
            findings.append(mutation.compare(placed.views, was, kept))
        return returned, findings

    def _manner(self, pattern: str, launching: bool = True) -> Manner:
        beside = tuple(guard for guard in self._guards if guard in SEEN_BESIDE)
        return Manner(pattern, beside, launching, may_draw=self._may_draw)

    def _repeat(self, observed: Observation, calls: int) -> tuple[Observation, list[GuardFinding | None]]:
        """Outputs of further calls that differ from the first; a finding if their form does.

        Where calls with different contents of uninitialised memory differ, two more tell whether that content
        is why.
        """
        findings: list[GuardFinding | None] = []
        different = dict(observed.repeats)
        number, last = observed.calls, calls
        while number < last:
            number += 1
            again, more = self._call(number)
            findings += more
            if again.malformed is not None:
                findings.append(GuardFinding(repeat.NAME, f"call {number}: {again.malformed}"))
                break
            if not again.is_usable:
                lost = _without_outputs(again)
                return replace(observed, exception=lost.exception, crash=lost.crash, calls=number,
                               repeats=different), findings  # fmt: skip
            finding = repeat.compare(observed.outputs, again.outputs, number)
            if finding is not None:
                findings.append(finding)
                break
            if not repeat.all_same_bits(observed.outputs, again.outputs):
                different[number] = again.outputs
                if "poison" in self._guards and number == 2 and last < len(PATTERNS):
                    last = len(PATTERNS)  # each pattern twice
        if "poison" in self._guards and different:
            findings.append(poison.judge(_by_call(observed.outputs, different, number)))
        return replace(observed, calls=number, repeats=different), findings

    def _run_alone(self, whole: Returned, part: Slice) -> GuardFinding | None:
        """The finding, if a part of the case gives other bits alone, or cannot be run alone."""
        alone = self._call_on(part.inputs)
        problem = alone.malformed
        if alone.exception is not None:
            problem = f"raises {alone.exception.type}: {alone.exception.message}"
        if alone.crash is not None:
            problem = alone.crash.message
        if problem:
            return GuardFinding(batch_invariance.NAME, f"{part.describe()} {problem}")
        return batch_invariance.compare(whole.outputs, alone.outputs, part)

    def _call_idle(self) -> tuple[torch.Tensor, ...] | None:
        returned = self._call_on(self._inputs, launching=False)
        return returned.outputs if returned.is_usable else None

    def _call_fresh(self, fresh: Inputs) -> tuple[torch.Tensor, ...] | None:
        returned = self._call_on(fresh)
        return returned.outputs if returned.is_usable else None

    def _call_on(self, inputs: Inputs, launching: bool = True) -> Returned:
        placed = self._caller.place(inputs, PATTERNS[0])
        return self._caller.call(placed, self._params, self._manner(PATTERNS[0], launching))


def _by_call(
    first: tuple[torch.Tensor, ...], different: Mapping[int, tuple[torch.Tensor, ...]], calls: int
) -> list[tuple[str, tuple[torch.Tensor, ...]]]:
    """Each call's pattern and outputs, in order."""
    numbers = range(1, calls + 1)
    return [(PATTERNS[(number - 1) % len(PATTERNS)], different.get(number, first)) for number in numbers]


def _without_outputs(returned: Returned) -> Observation:
    return Observation(
        exception=returned.exception, crash=returned.crash, malformed=returned.malformed,
        findings=returned.findings, duration_s=returned.duration_s, unfilled_loads=returned.unfilled_loads,
    )  # fmt: skip
