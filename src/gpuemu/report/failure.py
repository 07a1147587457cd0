"""What a failing run shows: its kinds, the minimal failing case, the worst element, how to replay it."""

from __future__ import annotations

from collections.abc import Iterator

from gpuemu.model.case import Case
from gpuemu.model.profile import PROFILES
from gpuemu.model.record import Record, Report
from gpuemu.model.verdict import Kind, Status, Verdict, WorstElement
from gpuemu.report.text import (
    FAINT_STYLE,
    LABEL_STYLE,
    Line,
    count,
    format_decimal,
    format_hex,
    format_short,
    join_words,
    make_line,
)


def evidence_lines(report: Report) -> Iterator[Line]:
    """The minimal (else the first) failing case of a run, and what was wrong in it."""
    record = report.minimal.record if report.minimal else report.failures[0]
    yield from _case_lines(report, record)
    yield from finding_lines(record.verdict)


def replay_line(report: Report, stored: bool) -> Line:
    """How to repeat the failing case."""
    command = report.replay_command if stored else "not possible with --no-store"
    return make_line(("replay", LABEL_STYLE), f"  {command}")


def kind_of(verdict: Verdict) -> str:
    """The kind of a failing verdict; a case that raised is an "error"."""
    return str(verdict.kind or ("error" if verdict.status is Status.ERROR else Kind.VALUE))


def kind_lines(report: Report) -> Iterator[Line]:
    """A line per kind, in the order in which the kinds first failed."""
    groups: dict[str, list[tuple[int, Record]]] = {}
    for position, record in enumerate(report.records, start=1):
        if record.verdict.status in (Status.FAIL, Status.ERROR):
            groups.setdefault(kind_of(record.verdict), []).append((position, record))
    width = max(map(len, groups))
    counts = {kind: count(len(group), "case") for kind, group in groups.items()}
    count_width = max(map(len, counts.values()))
    for kind, group in groups.items():
        what = _describe_group(kind, [record for _, record in group], only_kind=len(groups) == 1)
        yield make_line(
            (f"  {kind:<{width}}", "red"),
            f"  {counts[kind]:>{count_width}}, first at {group[0][0]}",
            f"  {what}",
        )


def _describe_group(kind: str, records: list[Record], only_kind: bool) -> str:
    first = records[0].verdict
    if kind == Kind.LAYOUT:
        layouts = {layout for record in records for layout in record.case.layouts.values()}
        return f"wrong only on non-contiguous inputs: {join_words(sorted(layouts - {'contiguous'}))}"
    if kind == Kind.PRECISION and first.looser_profile:
        profiles = [name for name in PROFILES if name in {r.verdict.looser_profile for r in records}]
        loosest = profiles[-1]
        what = f"within {loosest} ({PROFILES[loosest].meaning})"
        if not only_kind:  # the kernel is wrong in other cases, so no profile is the mend
            return f"these alone would pass {what}"
        if PROFILES[loosest].tf32:
            mend = 'tl.dot(..., input_precision="ieee")'
            return f"behaves like tf32; mend: {mend}, or accept it with --profile {loosest}"
        return (
            f"behaves like {what.removeprefix('within ')}; if that is meant, accept it with --profile {loosest}"
        )
    return _finding(first)


def _finding(verdict: Verdict) -> str:
    """The message; where the worst element is shown beside it, without that element's numbers."""
    errors = verdict.errors
    shown = errors is not None and errors.exceeding and verdict.worst is not None
    if verdict.kind in (Kind.VALUE, Kind.NONFINITE) and errors is not None and shown:
        return f"{errors.exceeding} of {count(errors.judged, 'element')} outside the bound"
    return verdict.message


def _case_lines(report: Report, record: Record) -> Iterator[Line]:
    if report.minimal is None:
        origin = f"case {report.cases_to_first_failure} of the plan"
        title = "first failing case"
    else:
        origin = f"shrunk from case {report.minimal.original_case_id} in {count(report.minimal.runs, 'run')}"
        title = "minimal failing case"
    yield make_line((title, LABEL_STYLE), (f"  {origin}", FAINT_STYLE))
    yield from case_table(record.case)


def case_table(case: Case) -> Iterator[Line]:
    """Dims, dtype, parameters, and per input its layout and value class, aligned."""
    yield row("dims", "  ".join(f"{name}={size}" for name, size in case.dims.items()) or "none")
    yield row("dtype", case.dtype)
    if case.params:
        yield row("params", "  ".join(f"{name}={value}" for name, value in case.params.items()))
    names = list(case.layouts)
    width = max(map(len, names), default=0)
    layout_width = max((len(layout) for layout in case.layouts.values()), default=0)
    for position, name in enumerate(names):
        layout, values = case.layouts[name], case.value_classes.get(name, "")
        text = f"{name:<{width}}  {layout:<{layout_width}}  {values}"
        yield row("inputs" if position == 0 else "", text)


def finding_lines(verdict: Verdict) -> Iterator[Line]:
    """What was wrong: message, worst element, hint."""
    if verdict.message:
        yield row("found", _finding(verdict))
    if verdict.worst is not None:
        yield from _worst_lines(verdict.worst)
    if verdict.hint:
        yield row("hint", verdict.hint)


def _worst_lines(worst: WorstElement) -> Iterator[Line]:
    index = ", ".join(map(str, worst.index))
    yield row("worst", f"output {worst.output} at [{index}]")
    shown = {"actual": worst.actual, "expected": worst.expected}
    width = max(len(format_decimal(value)) for value in shown.values())
    for name, value in shown.items():
        yield row(name, f"{format_decimal(value):<{width}}  {format_hex(value)}")
    yield row(
        "error",
        f"{format_short(worst.error_bound_units)} x bound (+-{format_short(worst.bound)}), "
        f"{format_short(worst.error_ulp)} ulp",
    )


def row(label: str, text: str) -> Line:
    """A labelled line of the case table."""
    return make_line((f"  {label:<8}", FAINT_STYLE), f"  {text.rstrip()}")
