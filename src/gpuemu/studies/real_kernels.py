"""Study "real-kernels": gpuemu's verdict on Triton kernels that none of us wrote, with each finding's cause.

Verdicts, counts and minimal cases are measured in the run; the causes are text that a person wrote after
reading the kernel (`studies/real-kernels/causes.toml`). A package that is not installed gets a row saying so.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from gpuemu import environment
from gpuemu.campaign import Campaign
from gpuemu.candidates import loader
from gpuemu.checking import check, make_campaign, require_device
from gpuemu.model.record import Record
from gpuemu.model.verdict import Status
from gpuemu.ops.registry import get_op
from gpuemu.shrink import shrink
from gpuemu.studies.real_targets import REAL_KERNELS, Cause, RealKernel, load_causes
from gpuemu.studies.shards import device_name

Progress = Callable[[str, int, int], None]
CASES_PER_KERNEL = 24
SHRINK_RUNS = 40
SHRINK_S = 15.0
# A dtype's verdict is the first of these that one of its cases has.
ORDER = (
    Status.FAIL, Status.ERROR, Status.INVALID, Status.PASS, Status.UNSUPPORTED, Status.INCONCLUSIVE,
)  # fmt: skip
Causes = Mapping[tuple[str, str, str], Cause]


def run_study(
    device: str = "cpu",
    seed: int = 0,
    progress: Progress | None = None,
    kernels: Sequence[RealKernel] = REAL_KERNELS,
    cases: int = CASES_PER_KERNEL,
) -> dict[str, Any]:
    """Check every kernel as `gpuemu check TARGET --op OP` does and return the study's document.

    Args:
        device: "cpu" (Triton's interpreter) or "cuda". seed: of plans and inputs. cases: per kernel.
        progress: called with (op, done, total) before each kernel.

    Returns:
        A JSON document: `kernels` holds a row each with `dtypes` (verdict and counts per dtype) and `findings`
        (each kind of outcome other than a plain pass, with its first and its minimal case and its cause).
    """
    require_device(device)
    started = time.perf_counter()
    rows = []
    for position, kernel in enumerate(kernels):
        if progress is not None:
            progress(kernel.op, position, len(kernels))
        rows.append(_measure(kernel, device, seed, cases))
    return attach_causes(_summarise(rows, device, seed, time.perf_counter() - started), load_causes())


def attach_causes(document: Mapping[str, Any], causes: Causes) -> dict[str, Any]:
    """The document with the cause of each finding, or None, and the number of findings per origin.

    Nothing measured is touched, so a recorded document can be given the causes that were written since.
    """
    rows, origins = [], []
    for row in document["kernels"]:
        findings = []
        for finding in row.get("findings", ()):
            cause = causes.get((row["target"], row["op"], finding["kind"]))
            findings.append({**finding, "cause": None if cause is None else asdict(cause)})
            origins.append("unexplained" if cause is None else cause.origin)
        rows.append({**row, "findings": findings} if "findings" in row else row)
    counts = {origin: origins.count(origin) for origin in dict.fromkeys(origins)}
    return {**document, "kernels": rows, "origins": counts}


def _measure(kernel: RealKernel, device: str, seed: int, cases: int) -> dict[str, Any]:
    started = time.perf_counter()
    op = get_op(kernel.op)
    version = environment.get_package_version(kernel.package)
    row: dict[str, Any] = {
        "package": kernel.package,
        "version": version,
        "target": kernel.target,
        "op": kernel.op,
        "profiles": {dtype: op.contract.profile_for(dtype) for dtype in op.dtypes},
        "reason": op.contract.profile_reason,
    }
    problem = kernel.problem(version)
    if problem is not None:
        return {**row, "unavailable": problem}
    report = check(kernel.local_target, op, budget=cases, seed=seed, device=device, store=False, shrink=False)
    campaign = make_campaign(op, loader.load(kernel.local_target, device), device)
    row.update(status=str(report.status), message=report.message, notes=list(report.run.notes))
    row["dtypes"] = {
        dtype: _dtype_row([record for record in report.records if record.case.dtype == dtype])
        for dtype in op.dtypes
    }
    row["findings"] = _findings(campaign, report.records)
    if device == "cpu":
        row["findings"] += _try_undefined_lanes(campaign, report.records)
    row["seconds"] = round(time.perf_counter() - started, 2)
    return row


def _dtype_row(records: Sequence[Record]) -> dict[str, Any]:
    verdicts = [record.verdict for record in records]
    counts = {status: sum(verdict.status is status for verdict in verdicts) for status in ORDER}
    scores = [v.errors.max_bound_units for v in verdicts if v.errors and v.status is Status.PASS]
    first = next((r.index + 1 for r in records if r.verdict.status in (Status.FAIL, Status.ERROR)), None)
    return {
        "status": str(next((status for status in ORDER if counts[status]), Status.INCONCLUSIVE)),
        "cases": len(verdicts),
        "statuses": {str(status): count for status, count in counts.items() if count},
        "first_failure": first,  # its position in the kernel's plan
        "worst_passing_score": max(scores, default=0.0),
    }


def _kinds(record: Record) -> tuple[str, ...]:
    """What is to be explained about a case: the kind of its failure, its status, or the flags on its pass."""
    verdict = record.verdict
    if verdict.status is Status.FAIL:
        return (str(verdict.kind),)
    if verdict.status in (Status.PASS, Status.INCONCLUSIVE):
        return tuple(str(flag) for flag in verdict.flags)
    return (str(verdict.status),)


def _findings(campaign: Campaign, records: Sequence[Record]) -> list[dict[str, Any]]:
    """Each kind of outcome with its number of cases, its first case and, where it failed, its minimal one."""
    found: dict[str, list[Record]] = {}
    for record in records:
        for kind in _kinds(record):
            found.setdefault(kind, []).append(record)
    findings = []
    for kind, of_kind in found.items():
        first = of_kind[0]
        minimal = None
        if first.verdict.status in (Status.FAIL, Status.ERROR):
            minimal = _describe(shrink(campaign, first, max_runs=SHRINK_RUNS, max_s=SHRINK_S).record)
        findings.append(_finding(kind, of_kind, _describe(first), minimal))
    return findings


def _finding(
    kind: str, records: Sequence[Record], first: dict[str, Any], minimal: dict[str, Any] | None
) -> dict[str, Any]:
    dtypes = list(dict.fromkeys(record.case.dtype for record in records))
    return {
        "kind": kind,
        "cases": len(records),
        "dtypes": dtypes,
        "first_index": records[0].index + 1,
        "first": first,
        "minimal": minimal,
    }


def _describe(record: Record) -> dict[str, Any]:
    return {
        "summary": record.case.summary(),
        "case": record.case.to_json(),
        "verdict": record.verdict.to_json(),
    }


def _try_undefined_lanes(campaign: Campaign, records: Sequence[Record]) -> list[dict[str, Any]]:
    """A passing case again, with NaN in the lanes that a masked load without `other` leaves undefined.

    Triton documents no value for them; its interpreter and its present backends give 0. One finding of kind
    "undefined_lanes" if the case then fails.
    """
    import numpy as np

    from gpuemu.candidates import triton_interpreter

    passing = [record.case for record in records if record.verdict.status is Status.PASS]
    if not passing:
        return []

    def poison(dtype: Any, shape: tuple[int, ...]) -> Any:
        is_index = np.dtype(dtype).kind in "iub"  # another value could be an address
        return np.zeros(shape, dtype) if is_index else np.full(shape, np.nan, dtype)

    case = min(passing, key=lambda case: not case.is_contiguous)  # the first contiguous one, if any
    with triton_interpreter.masked_lane_fill(poison):
        record = campaign.run_case(case)
    if record.verdict.status is Status.PASS:
        return []
    described = _describe(record)
    return [_finding("undefined_lanes", [record], described, described)]


def _summarise(rows: Sequence[Mapping[str, Any]], device: str, seed: int, seconds: float) -> dict[str, Any]:
    measured = [row for row in rows if "dtypes" in row]
    return {
        "study": "real-kernels",
        "device": device,
        "device_name": device_name(device),
        "cores": os.cpu_count(),
        "seed": seed,
        "packages": {row["package"]: row["version"] for row in rows},
        "passed": [row["op"] for row in measured if row["status"] == Status.PASS],
        "failed": [row["op"] for row in measured if row["status"] != Status.PASS],
        "unavailable": {row["op"]: row["unavailable"] for row in rows if "unavailable" in row},
        "cases": sum(d["cases"] for row in measured for d in row["dtypes"].values()),
        "seconds": round(seconds, 2),
        "environment": dict(environment.describe()),
        "kernels": list(rows),
    }
