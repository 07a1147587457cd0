"""Small hand-made cases, records, runs and reports for tests of what only reads them."""

from __future__ import annotations

from typing import Any

from gpuemu.model.case import Case
from gpuemu.model.record import Minimal, Record, Report, Run
from gpuemu.model.verdict import Adequacy, ErrorDistribution, Status, Verdict, WorstElement


def make_case(seed: int = 0, layout: str = "contiguous", **changes: Any) -> Case:
    """A softmax-like case of two dims and two inputs."""
    fields: dict[str, Any] = {
        "op": "softmax",
        "dims": {"R": 2, "N": 33},
        "dtype": "float32",
        "layouts": {"x": layout, "w": "contiguous"},
        "value_classes": {"x": "negative", "w": "uniform"},
        "params": {"eps": 1e-6},
        "seed": seed,
    }
    return Case(**(fields | changes))


WORST = WorstElement(
    output=0,
    index=(1, 32),
    actual=1.25,
    expected=0.1,
    bound=2.0**-22,
    error_bound_units=4823449.6,
    error_ulp=154350387.0,
)
ERRORS = ErrorDistribution(66, 66, 2, 4823449.6, 1.15, 154350387.0)


def make_verdict(status: Status = Status.PASS, **changes: Any) -> Verdict:
    """A verdict under P0; failures carry the worst element of `WORST`."""
    fields: dict[str, Any] = {"status": status, "profile": "P0", "errors": ERRORS}
    if status is Status.FAIL:
        fields |= {"kind": "value", "message": "2 of 66 elements outside the bound", "worst": WORST}
    return Verdict(**(fields | changes))


def make_record(
    index: int = 0, status: Status = Status.PASS, case: Case | None = None, **verdict: Any
) -> Record:
    """A record whose case differs by index."""
    return Record(
        index=index,
        case=case or make_case(seed=2**64 - 1 - index),
        verdict=make_verdict(status, **verdict),
        inputs_sha256=f"{index:064x}",
        outputs_sha256=f"{index + 1:064x}",
        duration_s=0.25,
    )


def make_run(run_id: str = "20261201-031500-3f9a", **changes: Any) -> Run:
    """A run of the softmax op on the CPU with the largest seed."""
    fields: dict[str, Any] = {
        "id": run_id,
        "target": "softmax_triton",
        "op": "softmax",
        "op_target": "softmax",
        "op_digest": "a" * 64,
        "plan_digest": "b" * 16,
        "strategy": "default",
        "seed": 2**64 - 1,
        "device": "cpu",
        "profile": None,
        "started": "2026-12-01T03:15:00+00:00",
        "environment": {"python": "3.11.2"},
    }
    return Run(**(fields | changes))


def make_report(
    status: Status = Status.PASS, records: tuple[Record, ...] | None = None, **changes: Any
) -> Report:
    """A report over the records (two passing ones unless given)."""
    fields: dict[str, Any] = {
        "run": make_run(),
        "status": status,
        "records": (make_record(0), make_record(1)) if records is None else records,
        "adequacy": Adequacy(rejected=("zeros", "input", "mean", "constant")),
        "seconds": 1.5,
    }
    return Report(**(fields | changes))


def make_minimal(record: Record, original: Record, runs: int = 23) -> Minimal:
    """A shrunk case of `original`."""
    return Minimal(record, original.case.id, runs)
