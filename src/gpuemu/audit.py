"""The cross-oracle audit: a run's outputs judged by other projects' rules as well (ORACLE.md section 1)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from gpuemu.inputs import fill
from gpuemu.model.audit import Audit, Disagreement, RuleCount
from gpuemu.model.case import Case
from gpuemu.model.observation import Observation
from gpuemu.model.verdict import Status, Verdict
from gpuemu.oracle.baselines.comparison import Comparison, Ruling
from gpuemu.oracle.baselines.rules import RULES

if TYPE_CHECKING:
    from gpuemu.campaign import Campaign

OURS = "gpuemu"


class AuditObserver:
    """Judges each case's outputs by every rule; an observer of a campaign."""

    def __init__(self, thresholds: Mapping[str, float] | None = None) -> None:
        self._thresholds = thresholds or {}
        self._counts = {name: [0, 0, 0] for name in (OURS, *(rule.name for rule in RULES))}
        self._disagreements: list[Disagreement] = []

    def __call__(self, campaign: Campaign, case: Case, observation: Observation, verdict: Verdict) -> None:
        if verdict.status not in (Status.PASS, Status.FAIL) or not observation.outputs:
            return
        comparison = compare_with(campaign, case, observation, self._thresholds)
        if comparison is None:
            return
        ours = verdict.status is Status.PASS
        self._count(OURS, ours)
        for rule in RULES:
            ruling = rule.judge(comparison)
            self._count(rule.name, ruling.accepts)
            if ruling.accepts is not None and ruling.accepts is not ours:
                self._disagreements.append(_describe(rule.name, ruling, case, verdict, comparison))

    def _count(self, name: str, accepts: bool | None) -> None:
        self._counts[name][2 if accepts is None else int(not accepts)] += 1

    def summarise(self) -> Audit:
        """What was counted so far."""
        return Audit({name: RuleCount(*c) for name, c in self._counts.items()}, tuple(self._disagreements))


def compare_with(
    campaign: Campaign, case: Case, observation: Observation, thresholds: Mapping[str, float]
) -> Comparison | None:
    """The outputs beside the references that rules use; None where forms differ or there is no reference."""
    expected = campaign.expect(case, observation=observation).expected
    forms = [(o.value.shape, o.dtype) for o in expected.outputs]
    given = [(o.shape, str(o.dtype).removeprefix("torch.")) for o in observation.outputs]
    if expected.problem is not None or expected.rejection is not None or forms != given:
        return None
    if campaign.op.residual is not None:  # nothing is expected but small residuals
        return None
    exact = tuple(output.value.double() for output in expected.outputs)
    native = run_natively(campaign, case)
    if native is not None and [o.shape for o in native] != [o.shape for o in observation.outputs]:
        native = None
    return Comparison(observation.outputs, native, exact, case.op, case.dtype, thresholds)


def run_natively(campaign: Campaign, case: Case) -> tuple[torch.Tensor, ...] | None:
    """The op's reference as torch runs it in the storage dtype; None if it cannot."""
    reference = campaign.op.reference
    if reference is None or campaign.op.recovered:
        return None
    inputs = fill.clone(campaign.prepare(case).inputs)
    try:
        with torch.no_grad():
            result = reference(*inputs.values(), **case.params)
    except Exception:  # whatever user code raises: the rules that need it abstain
        return None
    outputs = result if isinstance(result, (tuple, list)) else (result,)
    return tuple(outputs) if all(type(output) is torch.Tensor for output in outputs) else None


def _describe(name: str, ruling: Ruling, case: Case, verdict: Verdict, comparison: Comparison) -> Disagreement:
    worst = verdict.worst
    units = worst.error_bound_units if worst is not None else 0.0
    if ruling.accepts and worst is not None:
        shape = comparison.actual[worst.output].shape
        index = sum(i * math.prod(shape[d + 1 :]) for d, i in enumerate(worst.index))
        place = (worst.output, index, worst.actual, worst.expected)
    else:
        place = (ruling.output, ruling.index, ruling.actual, ruling.expected)
    return Disagreement(name, bool(ruling.accepts), case.id, case.summary(), *place, units, ruling.score)
