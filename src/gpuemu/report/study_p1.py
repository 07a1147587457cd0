"""Study P1 in the terminal, read from its JSON document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpuemu.report.text import FAINT_STYLE, LABEL_STYLE, Line, columns, format_short, make_line


def study_lines(document: Mapping[str, Any], quiet: bool = False) -> Iterator[Line]:
    """The summary, then (unless quiet) what each baseline accepts and a line per kernel."""
    yield from _summary_lines(document)
    if quiet:
        return
    yield make_line()
    yield from columns(list(_baseline_rows(document)))
    yield make_line()
    yield from columns(list(_kernel_rows(document)))
    yield make_line()
    for note in document["notes"]:
        yield make_line((f"note: {note}", FAINT_STYLE))


def _summary_lines(document: Mapping[str, Any]) -> Iterator[Line]:
    bugs, controls = document["bugs"], document["controls"]
    facts = f"{document['device_name']}, seed {document['seed']}, {document['cases']} cases"
    yield make_line(("study p1", LABEL_STYLE), f"  {facts}", (f" in {document['seconds']:.0f} s", FAINT_STYLE))
    good = bugs["detected"] == bugs["total"] and not controls["false_alarms"]
    within = (
        f", each within its first {bugs['max_cases_to_first_failure']} cases"
        if bugs["max_cases_to_first_failure"]
        else ""
    )
    yield make_line(
        ("gpuemu", "bold green" if good else "bold red"),
        f"    {bugs['detected']} of {bugs['total']} bugs found{within}; "
        f"{controls['false_alarms']} of {controls['total']} controls flagged",
    )


def _baseline_rows(document: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    yield ("baseline oracle", "bugs accepted", "controls rejected", "accepted bugs")
    bugs, controls = document["bugs"]["total"], document["controls"]["total"]
    for name, row in document["baselines"].items():
        accepted, rejected = row["accepted_bugs"], row["rejected_controls"]
        yield (
            name,
            f"{len(accepted)} of {bugs}",
            f"{len(rejected)} of {controls}",
            ", ".join(accepted) or "-",
        )


def _kernel_rows(document: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    dtypes = list(document["kernels"][0]["dtypes"])
    yield ("kernel", "role", *dtypes, "smallest failing case")
    for row in document["kernels"]:
        minimal = row["minimal"]
        cells = (_describe(row["dtypes"][dtype]) for dtype in dtypes)
        yield (row["name"], row["role"], *cells, minimal["summary"] if minimal else "-")


def _describe(dtype_row: Mapping[str, Any]) -> str:
    """ "value at 3": kind and position of the first failure; "pass 0.31": largest score, in bounds."""
    failure = dtype_row.get("first_failure")
    if failure is None:
        return f"pass {format_short(float(dtype_row['worst_passing_score']))}"
    verdict = failure["verdict"]
    return f"{verdict.get('kind') or verdict['status']} at {dtype_row['cases_to_first_failure']}"
