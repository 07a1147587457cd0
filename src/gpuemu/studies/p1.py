"""Study P1, the correctness illusion: what one-shape oracles accept and what gpuemu finds.

Everything is measured in the run. (a) Baseline oracles on every kernel of the corpus: one shape, normal random
inputs, the kernel against the op's reference run in the same dtype. (b) gpuemu's verdict: 30 cases per kernel
and dtype over the published sizes, then the smallest failing case.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from gpuemu import environment
from gpuemu.campaign import Campaign, Shared
from gpuemu.candidates import loader
from gpuemu.checking import device_kind, make_campaign, require_device
from gpuemu.corpus.catalogue import CorpusKernel, find_kernel, load_catalogue
from gpuemu.dtypes import torch_dtype
from gpuemu.model.candidate import Candidate
from gpuemu.model.op import Op
from gpuemu.model.record import Record
from gpuemu.model.verdict import Status
from gpuemu.ops.registry import get_op
from gpuemu.oracle.baselines import BASELINES, Baseline
from gpuemu.planning.limits import LIMITS, batch_dims
from gpuemu.planning.plan import make_plan
from gpuemu.shrink import shrink
from gpuemu.studies.published import CASES_PER_KERNEL_AND_DTYPE, DTYPES, one_shape, published_sizes
from gpuemu.studies.shards import Progress, device_name, run_shards, serve

BAD = (Status.FAIL, Status.ERROR)
SHRINK_RUNS = 40


def run_study(
    device: str = "cpu", seed: int = 0, progress: Progress | None = None, jobs: int | None = None
) -> dict[str, Any]:
    """Run the whole study and return its document.

    Args:
        device: "cpu" (Triton's interpreter) or "cuda".
        seed: of plans, inputs and the baselines' random inputs.
        progress: called with (kernel, done, total) after each kernel.
        jobs: worker processes; None takes one per core.

    Returns:
        A JSON document: bugs, controls, baselines, one entry per kernel.
    """
    require_device(device)
    started = time.perf_counter()
    kernels = load_catalogue()
    by_op: dict[str, list[str]] = {}
    for kernel in kernels:
        by_op.setdefault(kernel.op, []).append(kernel.name)
    rows = run_shards("gpuemu.studies.p1", list(by_op.values()), device, seed, jobs, progress)
    ordered = [rows[kernel.name] for kernel in kernels]
    return _summarise(ordered, device, seed, time.perf_counter() - started)


_shared: dict[str, Shared] = {}


def run_row(name: str, device: str, seed: int) -> dict[str, Any]:
    """One kernel of the corpus. Within a process, kernels of one op share inputs and expected values."""
    kernel = find_kernel(name)
    shared = _shared.setdefault(kernel.op, Shared())
    candidate = loader.load(f"{kernel.path}::{kernel.function}", device)
    op = get_op(kernel.op)
    row = _describe(kernel)
    row["baselines"] = _measure_baselines(candidate, op, device, seed)
    row["dtypes"], row["notes"] = _measure_gpuemu(candidate, op, device, seed, shared)
    row["minimal"] = _minimal_case(row, candidate, op, device)
    return row


def _describe(kernel: CorpusKernel) -> dict[str, Any]:
    names = ("name", "op", "role", "kind", "control", "bug_class", "bug")
    return {name: getattr(kernel, name) for name in names if getattr(kernel, name)}


def _measure_gpuemu(
    candidate: Candidate, op: Op, device: str, seed: int, shared: Shared
) -> tuple[dict[str, Any], list[str]]:
    """Per dtype: counts by status, first failure's position and kind, worst score of what passed."""
    published = published_sizes(op)
    results = {}
    notes: list[str] = []
    for dtype in DTYPES:
        plan = make_plan(published, budget=CASES_PER_KERNEL_AND_DTYPE, seed=seed, device=device, dtypes=[dtype])
        notes = list(plan.notes)
        campaign = make_campaign(published, candidate, device)
        campaign.shared = shared
        results[dtype] = _dtype_row(list(campaign.run(plan)))
    return results, notes


def _dtype_row(records: Sequence[Record]) -> dict[str, Any]:
    counts = {str(status): sum(r.verdict.status is status for r in records) for status in Status}
    first = next((r for r in records if r.verdict.status in BAD), None)
    scores = [
        r.verdict.errors.max_bound_units
        for r in records
        if r.verdict.errors and r.verdict.status is Status.PASS
    ]
    flags = sorted({flag for r in records for flag in r.verdict.flags})
    row: dict[str, Any] = {
        "cases": len(records),
        "statuses": {status: count for status, count in counts.items() if count},
        "cases_to_first_failure": None if first is None else first.index + 1,
        "worst_passing_score": max(scores, default=0.0),
        "flags": flags,
    }
    if first is not None:
        row["first_failure"] = first.to_json()
    return row


def _minimal_case(row: Mapping[str, Any], candidate: Candidate, op: Op, device: str) -> dict[str, Any] | None:
    """The first failing dtype's first failure, shrunk over the op's whole domain."""
    for dtype_row in row["dtypes"].values():
        if "first_failure" not in dtype_row:
            continue
        campaign: Campaign = make_campaign(op, candidate, device)
        minimal = shrink(campaign, Record.from_json(dtype_row["first_failure"]), max_runs=SHRINK_RUNS)
        record = minimal.record
        return {
            "dims": dict(record.case.dims),
            "summary": record.case.summary(),
            "verdict": record.verdict.to_json(),
        }
    return None


def _measure_baselines(candidate: Candidate, op: Op, device: str, seed: int) -> dict[str, dict[str, bool]]:
    """Whether each baseline oracle accepts the kernel, per dtype."""
    import torch

    batch = batch_dims(op)
    dims = one_shape(op, LIMITS[device_kind(device)].batch, batch)
    trials = max(baseline.trials for baseline in BASELINES)
    results: dict[str, dict[str, bool]] = {baseline.name: {} for baseline in BASELINES}
    for dtype in DTYPES:
        pairs = []
        for trial in range(trials):
            generator = torch.Generator().manual_seed(1000 * seed + trial)
            inputs = [
                torch.randn(op.shape_of(name, dims), generator=generator).to(device, torch_dtype(dtype))
                for name in op.inputs
            ]
            reference = op.reference(*inputs) if op.reference is not None else None
            with torch.no_grad(), loader.tier_scope(device, candidate)():
                pairs.append((candidate.call(*inputs), reference))
        for baseline in BASELINES:
            results[baseline.name][dtype] = _accepts(baseline, pairs, dtype)
    return results


def _accepts(baseline: Baseline, pairs: Sequence[tuple[Any, Any]], dtype: str) -> bool:
    return all(baseline.accepts(actual, reference, dtype) for actual, reference in pairs[: baseline.trials])


def _summarise(rows: Sequence[Mapping[str, Any]], device: str, seed: int, seconds: float) -> dict[str, Any]:
    buggy = [row for row in rows if row["role"] == "buggy"]
    controls = [row for row in rows if row["role"] == "control"]
    positions = [d["cases_to_first_failure"] for row in buggy for d in row["dtypes"].values()]
    found = [position for position in positions if position is not None]
    return {
        "study": "p1",
        "device": device,
        "device_name": device_name(device),
        "seed": seed,
        "bugs": {
            "total": len(buggy),
            "detected": sum(_is_flagged(row) for row in buggy),
            "detected_in_every_dtype": sum(_is_flagged(row, every=True) for row in buggy),
            "max_cases_to_first_failure": max(found, default=None),
        },
        "controls": {
            "total": len(controls),
            "false_alarms": sum(_is_flagged(row) for row in controls),
            "worst_score": max(d["worst_passing_score"] for row in controls for d in row["dtypes"].values()),
        },
        "baselines": {
            baseline.name: _baseline_summary(baseline.name, buggy, controls) for baseline in BASELINES
        },
        "cases": sum(d["cases"] for row in rows for d in row["dtypes"].values()),
        "seconds": round(seconds, 2),
        "notes": list(dict.fromkeys(note for row in rows for note in row["notes"])),
        "environment": dict(environment.describe()),
        "kernels": list(rows),
    }


def _is_flagged(row: Mapping[str, Any], every: bool = False) -> bool:
    flagged = [dtype_row["cases_to_first_failure"] is not None for dtype_row in row["dtypes"].values()]
    return all(flagged) if every else any(flagged)


def _baseline_summary(
    name: str, buggy: Sequence[Mapping[str, Any]], controls: Sequence[Mapping[str, Any]]
) -> dict[str, list[str]]:
    """A kernel counts as accepted when the baseline accepts it in every dtype."""
    return {
        "accepted_bugs": [row["name"] for row in buggy if all(row["baselines"][name].values())],
        "rejected_controls": [row["name"] for row in controls if not all(row["baselines"][name].values())],
    }


if __name__ == "__main__":
    serve(run_row)
