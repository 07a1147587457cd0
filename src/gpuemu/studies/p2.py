"""Study P2, tolerance calibration: recall and false alarms of our rule and of other projects'.

Every implementation of the population runs on the same cases, and every rule judges the same outputs; even
rounds calibrate what is calibrated, odd ones are scored, so that nothing is scored on what it was fitted to. A
mutant's run counts for the recall per case only where it is observably different from every control
(ORACLE.md section 9): on many inputs, a wrong kernel is right.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from gpuemu import environment
from gpuemu.audit import compare_with
from gpuemu.campaign import Campaign, Settings, Shared
from gpuemu.checking import device_kind, require_device
from gpuemu.confirmation import confirm
from gpuemu.corpus.population import Implementation, load_population
from gpuemu.model.case import Case
from gpuemu.model.op import Op
from gpuemu.model.verdict import Status, Verdict
from gpuemu.ops.registry import get_op
from gpuemu.oracle.baselines.comparison import Comparison
from gpuemu.oracle.baselines.rules import RULES
from gpuemu.rounding import half_ulp
from gpuemu.run.inline import InlineCaller
from gpuemu.studies.cells import Cell, interleave, make_candidate, value_classes
from gpuemu.studies.p2_summary import summarise
from gpuemu.studies.shards import Progress, device_name, run_shards, serve

ROUNDS = {"cpu": 2, "cuda": 4}
MINUTES = 8.5
# Where too few elements can be judged, ours says nothing: it counts as letting the run through.
JUDGED = (Status.PASS, Status.FAIL, Status.INCONCLUSIVE)
SPECIAL = ("exact_integers", "ones")  # chosen for their purpose, not drawn
# ORACLE.md section 9: a wrong run is observable beyond these multiples of the worst correct variant.
ELEMENT_FACTOR, RMS_FACTOR = 3.0, 1.5


def run_study(
    device: str = "cpu",
    seed: int = 0,
    progress: Progress | None = None,
    jobs: int | None = None,
    journal: Path | None = None,
    minutes: float = MINUTES,
    rounds: int | None = None,
    ops: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Run the population, judge it by every rule, and return the study's document.

    Args:
        device: "cpu" or "cuda"; Triton implementations take part on a device only. seed: of plans and inputs.
        journal, minutes: as for the study "controls". rounds: even ones calibrate, odd ones are scored.
    """
    require_device(device)
    started = time.perf_counter()
    items = list(make_items(rounds or ROUNDS[device_kind(device)], ops))
    rows = run_shards(
        "gpuemu.studies.p2", [[item] for item in items], device, seed, jobs, progress,
        journal=journal, minutes=minutes, on_failure=failed_row,
    )  # fmt: skip
    return {
        "study": "p2",
        "device": device,
        "device_name": device_name(device),
        "seed": seed,
        "items": len(rows),
        "items_planned": len(items),
        "failures": {item: row["failure"] for item, row in rows.items() if "failure" in row},
        **summarise(rows),
        "seconds": round(time.perf_counter() - started, 2),
        "environment": dict(environment.describe()),
    }


def failed_row(message: str) -> dict[str, Any]:
    """The row of an item that ended its worker: our own failure, which the document lists."""
    return {"runs": [], "failure": message}


def make_items(rounds: int, ops: Sequence[str] | None = None) -> Iterator[str]:
    """Items "op/dtype/value class/round", a cell's rounds together, neighbours of different ops."""
    names = ops or sorted(
        {i.op for i in load_population() if i.role == "mutant" and not get_op(i.op).recovered}
    )
    chosen = [op for op in map(get_op, names) if op.residual is None]
    by_op = [
        [
            Cell(op.name, dtype, values, number)
            for values in value_classes(op)
            if values not in SPECIAL
            for dtype in op.dtypes
            for number in range(rounds)
        ]
        for op in chosen
    ]
    yield from (cell.item for cell in interleave(by_op))


def run_row(item: str, device: str, seed: int) -> dict[str, Any]:
    """Every implementation of one op on a few cases of one dtype and value class: a line per run."""
    cell = Cell.parse(item)
    op, shared = get_op(cell.op), Shared()
    population = [
        (implementation, _campaign(op, implementation, cell.dtype, device, shared))
        for implementation in _population(cell, device_kind(device))
    ]
    runs: list[dict[str, Any]] = []
    for case in cell.plan(device, seed, prefix="p2/", layouts=["contiguous"]).cases:
        worst = _Worst()
        for implementation, campaign in population:
            run = _run(implementation, campaign, case, worst)
            if run is not None:
                runs.append(run)
    return {"runs": runs}


def _population(cell: Cell, kind: str) -> list[Implementation]:
    """The implementations that take part, controls first: what is observable is measured by them."""
    taking_part = [
        implementation
        for implementation in load_population(cell.op)
        if implementation.runs_on(kind, cell.dtype) and (implementation.kind == "torch" or kind == "cuda")
    ]
    return sorted(taking_part, key=lambda implementation: implementation.role)


def _campaign(op: Op, implementation: Implementation, dtype: str, device: str, shared: Shared) -> Campaign:
    settings = Settings(device=device, profile=implementation.profiles.get(dtype), guards=())
    return Campaign(op, InlineCaller(make_candidate(implementation, device)), settings, shared)


class _Worst:
    """The largest error per element, and the largest root mean square, of the controls so far."""

    def __init__(self) -> None:
        self._elements: list[torch.Tensor] = []
        self._rms: list[float] = []
        self._finite: list[torch.Tensor] = []

    @property
    def is_known(self) -> bool:
        """Whether some control has run."""
        return bool(self._elements)

    def add(self, comparison: Comparison) -> None:
        """Take a control's errors into account."""
        errors, finite = self._errors(comparison)
        if not self._elements:
            self._elements, self._rms, self._finite = errors, [_rms(e) for e in errors], finite
            return
        self._elements = [torch.maximum(a, b) for a, b in zip(self._elements, errors, strict=True)]
        self._rms = [max(a, _rms(b)) for a, b in zip(self._rms, errors, strict=True)]
        self._finite = [a & b for a, b in zip(self._finite, finite, strict=True)]

    def is_observable(self, comparison: Comparison) -> bool:
        """Whether an element, or the whole, is further off than correct variants are."""
        errors, finite = self._errors(comparison)
        known = (self._elements, self._rms, self._finite)
        parts = zip(errors, finite, *known, comparison.actual, comparison.exact, strict=True)
        for error, is_finite, worst, rms, all_finite, actual, exact in parts:
            if bool((all_finite & ~is_finite).any()):
                return True
            both = all_finite & is_finite
            dtype = str(actual.dtype).removeprefix("torch.")
            ulp = 2.0 * half_ulp(exact, dtype) if actual.is_floating_point() else torch.ones_like(exact)
            if bool((both & (error > ELEMENT_FACTOR * worst + ulp)).any()):
                return True
            own = _rms(torch.where(both, error, 0.0))
            # Below half an ulp, the root mean square is the luck of the rounding.
            if own > max(RMS_FACTOR * rms, _rms(torch.where(both, 0.5 * ulp, 0.0))):
                return True
        return False

    @staticmethod
    def _errors(comparison: Comparison) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        pairs = [(a.double(), e) for a, e in zip(comparison.actual, comparison.exact, strict=True)]
        finite = [a.isfinite() & e.isfinite() for a, e in pairs]
        errors = [torch.where(f, (a - e).abs(), 0.0) for f, (a, e) in zip(finite, pairs, strict=True)]
        return errors, finite


def _rms(error: torch.Tensor) -> float:
    return float(error.square().mean().sqrt()) if error.numel() else 0.0


def _run(
    implementation: Implementation, campaign: Campaign, case: Case, worst: _Worst
) -> dict[str, Any] | None:
    """One run as plain values: what each rule says, and whether the run is observably wrong."""
    observation = campaign.observe(case)
    if observation.exception is not None:
        return None
    verdict = campaign.judge(case, observation, campaign.expect(case))
    if verdict.status not in JUDGED:
        return None
    is_control = implementation.role == "control"
    if not is_control and not worst.is_known:
        return None
    if is_control and verdict.status is Status.FAIL:  # section 12.7 applies before anything counts as a failure
        verdict = confirm(campaign, case, observation, verdict)
    comparison = compare_with(campaign, case, observation, {})
    if comparison is None:
        return None
    if is_control:
        worst.add(comparison)
    return {
        "name": implementation.name,
        "role": implementation.role,
        "precision": implementation.precision,
        "observable": is_control or worst.is_observable(comparison),
        "ours": _score(verdict),
        "absolute": _largest_error(comparison),
        "rules": {rule.name: _rule_score(rule.judge(comparison)) for rule in RULES if rule.name != "p95x1.5"},
    }


def _score(verdict: Verdict) -> float | str:
    score = verdict.errors.max_bound_units if verdict.errors is not None else float("inf")
    score = max(score, 1.0 + 1e-9) if verdict.status is Status.FAIL else min(score, 1.0)
    return _encode(score)


def _rule_score(ruling: Any) -> float | str | None:
    if ruling.accepts is None:
        return None
    return _encode(ruling.score if ruling.accepts == (ruling.score <= 1.0) else float("inf"))


def _largest_error(comparison: Comparison) -> float | str:
    """max |actual - reference cast to the dtype|, infinite where the output holds NaN or an infinity."""
    largest = 0.0
    for actual, exact in zip(comparison.actual, comparison.exact, strict=True):
        if actual.numel():
            error = (actual.double() - exact.to(actual.dtype).double()).abs()
            largest = max(largest, float(error.nan_to_num(nan=torch.inf).max()))
            largest = largest if bool(actual.double().isfinite().all()) else float("inf")
    return _encode(largest)


def _encode(number: float) -> float | str:
    return "inf" if number == float("inf") else number


if __name__ == "__main__":
    serve(run_row)
