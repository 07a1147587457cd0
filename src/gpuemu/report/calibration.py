"""Calibrations in the terminal: the table that was measured, and where a kernel's errors drift from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuemu.model.calibration import Calibration, Drift
from gpuemu.report.text import FAINT_STYLE, LABEL_STYLE, Line, columns, format_short, make_line

RULE_SET_SCORE = 0.5  # section 6: a control above it is a bug report against the rules


def calibration_lines(calibration: Calibration, quiet: bool = False) -> Iterator[Line]:
    """The summary, families whose controls come near the limit, and (unless quiet) the table."""
    runs = sum(entry.runs for entry in calibration.entries)
    facts = f"{calibration.device_name}, seed {calibration.seed}, {runs} runs of known-correct kernels"
    yield make_line(("calibration", LABEL_STYLE), f"  {facts}")
    near = [entry for entry in calibration.entries if entry.largest > RULE_SET_SCORE]
    for entry in near:
        what = f"{entry.family} {entry.profile} {entry.dtype}: a control scores {entry.largest:.2f}"
        yield make_line(("warning: ", "yellow"), f"{what}; constant {format_short(entry.constant)}")
    if not near:
        yield make_line("no constant is raised: every control scores at most 0.5 of its bound")
    if quiet:
        return
    yield make_line()
    rows: list[tuple[str, ...]] = [
        ("family", "profile", "dtype", "runs", "95 %", "99 %", "largest", "constant", "rate below (95 %)")
    ]
    for e in calibration.entries:
        numbers = (e.q95, e.q99, e.largest, e.constant, e.rate_95)
        rows.append((e.family, e.profile, e.dtype, str(e.runs), *map(format_short, numbers)))
    yield from columns(rows)
    yield make_line()
    shape = "beside it: the published tolerance (p95 x 1.5) for"
    yield make_line((f"{shape} {len(calibration.published)} (op, dtype) pairs", FAINT_STYLE))


def drift_lines(drifts: Sequence[Drift]) -> Iterator[Line]:
    """A warning per dtype whose errors are larger than those of every control."""
    for drift in drifts:
        score = f"{drift.dtype} under {drift.profile}: largest error {format_short(drift.score)} of its bound"
        controls = f"{format_short(drift.largest_control)} in {drift.control_runs} runs"
        yield make_line(("warning: drift: ", "yellow"), f"{score}; known-correct kernels reach {controls}")
