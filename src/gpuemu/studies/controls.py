"""Study "controls": known-correct kernels on every value class, hard ones included, and how near they come.

Every run (case x implementation) of a control that the oracle does not pass is a false alarm. The scores, in
units of the bound, are counted per profile: what the rule leaves as headroom. A control whose arithmetic is
looser than its op's default profile is judged under the profile that it documents; its score under the default
is counted apart, since it shows what the tighter profile tells from it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuemu import environment
from gpuemu.campaign import Campaign, Shared
from gpuemu.checking import device_kind, make_campaign, require_device
from gpuemu.corpus.population import Implementation, load_population
from gpuemu.errors import UsageError
from gpuemu.model.case import Case
from gpuemu.model.op import Op
from gpuemu.model.scores import Scores, merge_scores
from gpuemu.model.verdict import Status, Verdict
from gpuemu.ops.registry import get_op
from gpuemu.oracle.calibration import PUBLISHED_VALUES, false_alarm_bound
from gpuemu.studies.cells import Cell, interleave, make_candidate, value_classes
from gpuemu.studies.shards import Progress, device_name, run_shards, serve

ROUNDS = {"cpu": 4, "cuda": 12}
MINUTES = 8.5
KEPT_ALARMS = 3  # per item
TABLES = ("by_profile", "under_default", "by_op", "by_value_class", "by_implementation")
ALARMS = (Status.FAIL, Status.ERROR, Status.INVALID)


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
    """Run every control on every value class and return the study's document.

    Args:
        device: "cpu" (Triton's interpreter) or "cuda". seed: of plans and inputs.
        journal: keeps finished rows; the same call goes on where an earlier one stopped.
        minutes: no row is begun after this time; the document says how many are missing.
        rounds: cases per (op, dtype, value class), in units of `CASES_PER_CELL`. ops: None takes all.

    Raises:
        UsageError: an op without controls.
    """
    require_device(device)
    started = time.perf_counter()
    kind = device_kind(device)
    items = list(make_items(kind, rounds or ROUNDS[kind], ops))
    groups = [[item] for item in items]
    rows = run_shards(
        "gpuemu.studies.controls",
        groups,
        device,
        seed,
        jobs,
        progress,
        journal=journal,
        minutes=minutes,
        on_failure=failed_row,
    )
    return summarise(rows, len(items), device, seed, time.perf_counter() - started)


def controls_of(op: str, device: str, dtype: str) -> list[Implementation]:
    """The controls of an op that run on a kind of device in a dtype."""
    kind = device_kind(device)
    return [i for i in load_population(op) if i.role == "control" and i.runs_on(kind, dtype)]


def failed_row(message: str) -> dict[str, Any]:
    """The row of an item that ended its worker: our own failure, which the document lists."""
    empty: dict[str, Any] = {"implementations": {}, "alarms": [], "absolute_errors": []}
    return {**empty, "failure": message}


def make_items(kind: str, rounds: int, ops: Sequence[str] | None = None) -> Iterator[str]:
    """Items "op/dtype/value class/round", round by round, so that whatever is done is a cross-section."""
    names = sorted({i.op for i in load_population() if i.role == "control" and kind in i.devices})
    unknown = [op for op in ops or () if op not in names]
    if unknown:
        raise UsageError(
            f"no control of {', '.join(unknown)} runs on {kind}; ops with controls: {', '.join(names)}"
        )
    chosen = [get_op(name) for name in (ops or names)]
    for number in range(rounds):
        by_op = [
            [Cell(op.name, dtype, values, number) for values in value_classes(op) for dtype in op.dtypes]
            for op in chosen
        ]
        yield from (cell.item for cell in interleave(by_op))


def run_row(item: str, device: str, seed: int) -> dict[str, Any]:
    """All controls of one op on a few cases of one dtype and value class."""
    cell = Cell.parse(item)
    op = get_op(cell.op)
    campaigns = [
        (control, _campaign(op, control, cell.dtype, device))
        for control in controls_of(cell.op, device, cell.dtype)
    ]
    shared = Shared()
    for _, campaign in campaigns:
        campaign.shared = shared
    row: dict[str, Any] = {"implementations": {}, "alarms": [], "absolute_errors": []}
    for case in cell.plan(device, seed).cases:
        for control, campaign in campaigns:
            _run_control(control, campaign, case, row)
    return row


def _campaign(op: Op, control: Implementation, dtype: str, device: str) -> Campaign:
    return make_campaign(op, make_candidate(control, device), device, control.profiles.get(dtype))


def _run_control(control: Implementation, campaign: Campaign, case: Case, row: dict[str, Any]) -> None:
    record = campaign.run_case(case)
    verdict = record.verdict
    counts = row["implementations"].setdefault(control.name, {"statuses": {}, "scores": {}})
    status = str(verdict.status)
    counts["statuses"][status] = counts["statuses"].get(status, 0) + 1
    _count_score(counts["scores"], verdict)
    if verdict.errors is not None and set(case.value_classes.values()) <= set(PUBLISHED_VALUES):
        row["absolute_errors"].append(verdict.errors.max_absolute)
    default = campaign.op.contract.profile_for(case.dtype)
    if verdict.profile != default and verdict.status is Status.PASS:
        strict = campaign.judge(case, campaign.observe(case), campaign.expect(case, default))
        _count_score(counts.setdefault("under_default", {}), strict)
    if verdict.status in ALARMS and len(row["alarms"]) < KEPT_ALARMS:
        row["alarms"].append({"implementation": control.name, "record": record.to_json()})


def _count_score(scores: dict[str, Any], verdict: Verdict) -> None:
    if verdict.errors is None:
        return
    kept = Scores.from_json(scores.get(verdict.profile))
    scores[verdict.profile] = kept.with_score(verdict.errors.max_bound_units).to_json()


def summarise(
    rows: Mapping[str, Mapping[str, Any]], planned: int, device: str, seed: int, seconds: float
) -> dict[str, Any]:
    """The study's document from its rows."""
    tables: dict[str, dict[str, Any]] = {table: {} for table in TABLES}
    statuses: dict[str, int] = {}
    alarms: list[Any] = []
    for item, row in rows.items():
        cell = Cell.parse(item)
        alarms += row["alarms"]
        for implementation, counts in row["implementations"].items():
            for status, count in counts["statuses"].items():
                statuses[status] = statuses.get(status, 0) + count
            for profile, scores in counts["scores"].items():
                for table, key in (
                    ("by_profile", f"{profile} {cell.dtype}"),
                    ("by_op", cell.op_and_dtype),
                    ("by_value_class", f"{cell.values} {cell.dtype}"),
                    ("by_implementation", f"{cell.op} {implementation}"),
                ):
                    merge_scores(tables[table], key, scores)
            for profile, scores in counts.get("under_default", {}).items():
                key = f"{cell.op} {implementation} {cell.dtype} {profile}"
                merge_scores(tables["under_default"], key, scores)
    runs = sum(statuses.values())
    false_alarms = sum(statuses.get(str(status), 0) for status in ALARMS)
    judged = statuses.get("pass", 0) + false_alarms
    return {
        "study": "controls",
        "device": device,
        "device_name": device_name(device),
        "seed": seed,
        "runs": runs,
        "judged": judged,
        "statuses": statuses,
        "false_alarms": false_alarms,
        "bound_on_rate_95": false_alarm_bound(judged, false_alarms),
        "items": len(rows),
        "items_planned": planned,
        "implementations": len(tables["by_implementation"]),
        "alarms": alarms,
        "failures": {item: row["failure"] for item, row in rows.items() if "failure" in row},
        **tables,
        "seconds": round(seconds, 2),
        "environment": dict(environment.describe()),
    }


if __name__ == "__main__":
    serve(run_row)
