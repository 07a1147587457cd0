"""Measuring a calibration: the controls of the study of that name, put together per op family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuemu import environment
from gpuemu.checking import device_kind, require_device
from gpuemu.model.calibration import Calibration, CalibrationEntry
from gpuemu.model.scores import Scores
from gpuemu.ops.registry import get_op
from gpuemu.oracle.calibration import false_alarm_bound, published_threshold, raised_constant
from gpuemu.studies.cells import Cell
from gpuemu.studies.controls import ROUNDS, failed_row, make_items
from gpuemu.studies.shards import Progress, device_name, run_shards


def calibrate(
    device: str = "cpu",
    seed: int = 1,
    rounds: int | None = None,
    ops: Sequence[str] | None = None,
    progress: Progress | None = None,
    journal: Path | None = None,
    minutes: float | None = None,
    command: str = "gpuemu calibrate",
) -> Calibration:
    """Run every control on every value class and summarise the scores per (op family, profile, dtype).

    Args:
        seed: of plans and inputs; the study "controls" uses another one, so that it calibrated nothing.
        rounds, ops, journal, minutes: as for that study. command: what the file says it was written by.
    """
    require_device(device)
    kind = device_kind(device)
    items = list(make_items(kind, rounds or ROUNDS[kind], ops))
    rows = run_shards(
        "gpuemu.studies.controls", [[item] for item in items], device, seed, progress=progress,
        journal=journal, minutes=minutes, on_failure=failed_row,
    )  # fmt: skip
    return Calibration(
        device=kind,
        device_name=device_name(device),
        command=command,
        seed=seed,
        entries=summarise_scores(rows),
        published=summarise_errors(rows),
        environment=dict(environment.describe()),
    )


def summarise_scores(rows: Mapping[str, Mapping[str, Any]]) -> tuple[CalibrationEntry, ...]:
    """The entries from the rows of the study, sorted."""
    scores: dict[tuple[str, str, str], Scores] = {}
    implementations: dict[tuple[str, str, str], set[str]] = {}
    for item, row in rows.items():
        cell = Cell.parse(item)
        family = get_op(cell.op).family
        for implementation, counts in row["implementations"].items():
            for profile, found in counts["scores"].items():
                key = (family, profile, cell.dtype)
                scores[key] = scores.get(key, Scores()) + Scores.from_json(found)
                implementations.setdefault(key, set()).add(f"{cell.op} {implementation}")
    return tuple(
        CalibrationEntry(
            *key,
            runs=found.total,
            implementations=len(implementations[key]),
            median=found.quantile(0.5),
            q95=found.quantile(0.95),
            q99=found.quantile(0.99),
            largest=found.largest,
            constant=raised_constant(found.largest),
            rate_95=false_alarm_bound(found.total),
        )
        for key, found in sorted(scores.items())
    )


def summarise_errors(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """The published tolerance per "op dtype", from the benign value classes that it was published for."""
    errors: dict[str, list[float]] = {}
    for item, row in rows.items():
        errors.setdefault(Cell.parse(item).op_and_dtype, []).extend(row["absolute_errors"])
    return {key: published_threshold(found) for key, found in sorted(errors.items()) if found}
