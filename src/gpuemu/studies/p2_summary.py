"""From the runs of study P2 to its figures: recall and false alarms per rule, calibrated and not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuemu.ops.registry import get_op
from gpuemu.oracle.baselines.rules import RULES
from gpuemu.oracle.calibration import PUBLISHED_VALUES, false_alarm_bound, published_threshold
from gpuemu.studies.cells import Cell

OURS = "gpuemu"
CALIBRATED, MAXIMUM = "p95x1.5", "max_of_controls"
FIXED = tuple(rule.name for rule in RULES if rule.name != CALIBRATED)
HARD = ("adversarial", "nan_injected", "sparse_adversarial", "sparse_nonfinite")
BY_CELL = (OURS, CALIBRATED, "published_absolute")
CONSTANTS = (0.5, 1.0, 2.0, 4.0, 8.0, 32.0)


@dataclass(frozen=True)
class Run:
    """One run of one implementation. scores: error over tolerance per rule, None where it cannot judge."""

    cell: Cell
    name: str
    is_control: bool
    precision: bool
    observable: bool
    absolute: float
    scores: Mapping[str, float | None]

    @property
    def calibrates(self) -> bool:
        """Even rounds calibrate, odd ones are scored."""
        return self.cell.round % 2 == 0


Rejects = Callable[[Run], bool | None]


def read_runs(rows: Mapping[str, Mapping[str, Any]]) -> list[Run]:
    """The runs of all rows."""
    return [run for item, row in rows.items() for run in _read_row(item, row)]


def _read_row(item: str, row: Mapping[str, Any]) -> Iterator[Run]:
    cell = Cell.parse(item)
    for run in row["runs"]:
        scores = {name: None if s is None else float(s) for name, s in run["rules"].items()}
        yield Run(
            cell, run["name"], run["role"] == "control", run["precision"], run["observable"],
            float(run["absolute"]), {**scores, OURS: float(run["ours"])},
        )  # fmt: skip


def summarise(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Every figure of the study, as plain JSON values."""
    runs = read_runs(rows)
    fitting = [run for run in runs if run.calibrates]
    scored = [run for run in runs if not run.calibrates]
    rules = _rules(fitting)
    groups = {
        "all": scored,
        "benign": [r for r in scored if r.cell.values in PUBLISHED_VALUES],
        "other": [r for r in scored if r.cell.values not in (*PUBLISHED_VALUES, *HARD)],
        "hard": [r for r in scored if r.cell.values in HARD],
    }
    shifted = _rules([run for run in fitting if run.cell.values in PUBLISHED_VALUES])
    return {
        "runs": len(runs),
        "scored": {
            "controls": sum(r.is_control for r in scored),
            "mutants": sum(not r.is_control for r in scored),
        },
        "mutants": len({(r.cell.op, r.name) for r in runs if not r.is_control}),
        "by_values": {group: _table(rules, found) for group, found in groups.items()},
        "rescaled": _table(_rescaled(fitting), scored),
        "shift": {
            group: _table({n: shifted[n] for n in (OURS, CALIBRATED, MAXIMUM)}, groups[group])
            for group in ("benign", "other", "hard")
        },
        "by_dtype": _split(rules, scored, lambda r: r.cell.dtype),
        "by_family": _split(rules, scored, lambda r: get_op(r.cell.op).family),
        "by_cell": _split({n: rules[n] for n in BY_CELL}, scored, lambda r: r.cell.op_and_dtype),
        "constants": {str(c): _figures(_above(OURS, c), scored) for c in CONSTANTS},
        "missed": _missed(scored),
    }


def _rules(fitting: Sequence[Run]) -> dict[str, Rejects]:
    """Every rule as a function of a run; the calibrated ones with thresholds of these runs' controls."""
    errors: dict[str, list[float]] = {}
    for run in fitting:
        if run.is_control and math.isfinite(run.absolute):
            errors.setdefault(run.cell.op_and_dtype, []).append(run.absolute)
    calibrated = {key: published_threshold(found) for key, found in errors.items()}
    maximum = {key: max(found) for key, found in errors.items()}
    rules = {OURS: _above(OURS, 1.0), **{name: _above(name, 1.0) for name in FIXED}}
    rules[CALIBRATED] = _beyond(calibrated)
    rules[MAXIMUM] = _beyond(maximum)
    return rules


def _above(rule: str, constant: float) -> Rejects:
    def rejects(run: Run) -> bool | None:
        score = run.scores.get(rule)
        return None if score is None else score > constant

    return rejects


def _beyond(thresholds: Mapping[str, float]) -> Rejects:
    def rejects(run: Run) -> bool | None:
        threshold = thresholds.get(run.cell.op_and_dtype)
        return None if threshold is None else not run.absolute <= threshold

    return rejects


def _rescaled(fitting: Sequence[Run]) -> dict[str, Rejects]:
    """Each rule's tolerances scaled so that it raises no alarm on the calibrating half; ours stays as it is."""
    rules: dict[str, Rejects] = {OURS: _above(OURS, 1.0)}
    for name in FIXED:
        scores = [s for run in fitting if run.is_control and (s := run.scores.get(name)) is not None]
        finite = [score for score in scores if math.isfinite(score)]
        # Infinite scores (a NaN compared with itself) no factor can mend: those alarms stay.
        rules[name] = _above(name, max(finite, default=1.0))
    return rules


def _table(rules: Mapping[str, Rejects], runs: Sequence[Run]) -> dict[str, Any]:
    return {name: _figures(rejects, runs) for name, rejects in rules.items()}


def _split(
    rules: Mapping[str, Rejects], runs: Sequence[Run], key: Callable[[Run], str]
) -> dict[str, dict[str, Any]]:
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return {name: _table(rules, found) for name, found in sorted(groups.items())}


def _figures(rejects: Rejects, runs: Iterable[Run]) -> dict[str, Any]:
    """False alarms, recall per observable case and per kernel, functional and precision faults apart."""
    alarms = controls = abstained = 0
    cases = {False: [0, 0], True: [0, 0]}
    kernels: dict[bool, dict[tuple[str, str], bool]] = {False: {}, True: {}}
    for run in runs:
        said = rejects(run)
        if said is None:
            abstained += 1
        elif run.is_control:
            controls += 1
            alarms += said
        elif run.observable:
            cases[run.precision][0] += said
            cases[run.precision][1] += 1
            found = kernels[run.precision]
            key = (run.cell.op, run.name)
            found[key] = found.get(key, False) or said
    return {
        "false_alarms": alarms,
        "controls": controls,
        "rate": alarms / controls if controls else None,
        "bound_on_rate_95": false_alarm_bound(controls, alarms) if controls else None,
        "abstained": abstained,
        "functional": _recall(cases[False], kernels[False]),
        "precision": _recall(cases[True], kernels[True]),
    }


def _recall(cases: Sequence[int], kernels: Mapping[tuple[str, str], bool]) -> dict[str, Any]:
    found, total = cases
    return {
        "cases": total,
        "found": found,
        "recall": found / total if total else None,
        "kernels": len(kernels),
        "kernels_found": sum(kernels.values()),
    }


def _missed(runs: Iterable[Run]) -> list[str]:
    """Mutants that our rule never rejects although some run of theirs is observable."""
    seen: dict[str, bool] = {}
    for run in runs:
        if not run.is_control and run.observable:
            key = f"{run.cell.op} {run.name}"
            seen[key] = seen.get(key, False) or (run.scores[OURS] or 0.0) > 1.0
    return sorted(name for name, found in seen.items() if not found)
