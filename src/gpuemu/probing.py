"""Asking a kernel that passed once more, differently: does it remember, recognise, or leave the work to others?

What a single call cannot show (HACKS.md 11 to 18 and 36). Nothing here decides by itself that an answer is
suspicious: where one could be right after all, the reference is asked.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch

from gpuemu import deciding
from gpuemu.inputs import fill
from gpuemu.model.case import Case
from gpuemu.model.observation import Observation
from gpuemu.model.verdict import Status, Verdict
from gpuemu.oracle import bounds, compare
from gpuemu.reference import evaluate
from gpuemu.run.guards import repeat, stale

if TYPE_CHECKING:
    from gpuemu.campaign import Campaign

Inputs = Mapping[str, torch.Tensor]
STALE_EVERY = 3  # cases; each third is called with fresh values too
RECALL_ONE_IN = 4
REMEMBERED = 16  # cases that may be called again
DECOY_CASES = 3  # right without a launch, before none of the kernels is believed to matter
_OTHER_SEED = 0x9E3779B97F4A7C15  # added to a case's seed for fresh values


@dataclass
class Memory:
    """What a campaign keeps for these questions."""

    passed: deque[Case] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    is_launch_proven: bool = False
    idle_cases: int = 0
    asked: int = 0


def make_fresh(campaign: Campaign, case: Case) -> Inputs | None:
    """Other values for the storages of a case's inputs, or None where it is not asked with them.

    In turn all of them other, and a single element: a kernel that recognises inputs by some of their elements
    does not see that one.
    """
    op, memory = campaign.op, campaign.memory
    if "stale" not in campaign.settings.guards or deciding.awaits_outputs(op) or op.residual is not None:
        return None
    memory.asked += 1
    if memory.asked % STALE_EVERY != 1:
        return None
    other = case.with_changes(seed=(case.seed + _OTHER_SEED) % 2**64)
    inputs, values = campaign.prepare(case).inputs, campaign.prepare(other).inputs
    if memory.asked % (2 * STALE_EVERY) == 1:
        return values
    changed = fill.clone(inputs)
    return changed if stale.rewrite_one(changed, values, memory.asked) else None


def judge_fresh(
    campaign: Campaign, case: Case, observation: Observation, fresh: Inputs | None, verdict: Verdict
) -> Verdict:
    """A failure if the outputs stayed as they were although other values call for others."""
    if fresh is None or observation.fresh is None or not observation.outputs:
        return verdict
    if not repeat.all_same_bits(observation.outputs, observation.fresh):
        return verdict
    settings = campaign.settings
    expected = evaluate.evaluate(
        campaign.op, case, fresh, campaign.profile_of(case), rigorous=settings.rigorous
    )
    expected = bounds.scale(expected, settings.constants.get(case.dtype, 1.0))
    contract = campaign.op.contract
    again = Observation(outputs=observation.fresh)
    found = compare.judge(again, expected, bounds.accept(expected, contract), contract)
    if found.status is not Status.FAIL:
        return verdict
    message = "it gave the same outputs again for other values in the same memory, which call for others"
    return replace(verdict, status=Status.FAIL, kind="guard:stale", message=message)


def judge_idle(campaign: Campaign, observation: Observation, verdict: Verdict) -> Verdict:
    """A failure if case after case is right without any of the candidate's kernels being launched."""
    memory = campaign.memory
    if observation.idle_outputs is None or not any(output.numel() for output in observation.outputs):
        return verdict
    if not repeat.all_same_bits(observation.outputs, observation.idle_outputs):
        memory.is_launch_proven = True
        return verdict
    memory.idle_cases += 1
    if memory.idle_cases < DECOY_CASES:
        return verdict
    message = f"in {memory.idle_cases} cases it gives the same outputs when none of its kernels is launched"
    return replace(verdict, status=Status.FAIL, kind="guard:decoy", message=message)


def recall(campaign: Campaign, case: Case, verdict: Verdict) -> Verdict:
    """Now and then, unforeseeably, an earlier case once more: a failure if it is no longer right."""
    memory = campaign.memory
    if "recall" not in campaign.settings.guards or deciding.awaits_outputs(campaign.op):
        return verdict
    if memory.passed and secrets.randbelow(RECALL_ONE_IN) == 0:
        earlier = secrets.choice(list(memory.passed))
        found = campaign.judge(earlier, campaign.observe_once(earlier), campaign.expect(earlier))
        if found.status in (Status.FAIL, Status.ERROR):
            message = f"case {earlier.id}, right before, is not when called again: {found.message}"
            return replace(verdict, status=Status.FAIL, kind="guard:recall", message=message)
    memory.passed.append(case)
    return verdict
