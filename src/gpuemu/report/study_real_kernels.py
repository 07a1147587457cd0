"""Study "real-kernels" in the terminal, read from its JSON document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpuemu.report.text import FAINT_STYLE, LABEL_STYLE, Line, columns, count, format_short, make_line

ORIGIN_WORDS = {
    "theirs": "a discrepancy of the kernel",
    "ours": "a false alarm of ours",
    "semantics": "a documented or permitted difference",
    "unexplained": "without a recorded cause",
}


def study_lines(document: Mapping[str, Any], quiet: bool = False) -> Iterator[Line]:
    """The summary, then (unless quiet) a line per kernel and each finding with its cause."""
    yield from _summary_lines(document)
    if quiet:
        return
    yield make_line()
    yield from columns(list(_kernel_rows(document)))
    for row in document["kernels"]:
        for finding in row.get("findings", ()):
            yield make_line()
            yield from _finding_lines(row, finding)


def _summary_lines(document: Mapping[str, Any]) -> Iterator[Line]:
    facts = f"{document['device_name']}, seed {document['seed']}, {document['cases']} cases"
    seconds = (f" in {document['seconds']:.0f} s", FAINT_STYLE)
    yield make_line(("study real-kernels", LABEL_STYLE), f"  {facts}", seconds)
    for name, version in document["packages"].items():
        yield make_line(f"  {name} {version or 'is not installed'}")
    checked = len(document["passed"]) + len(document["failed"])
    yield make_line(f"  {len(document['passed'])} of {count(checked, 'kernel')} passed")
    for origin, number in document["origins"].items():
        yield make_line(f"  {count(number, 'finding')}: {ORIGIN_WORDS[origin]}")


def _kernel_rows(document: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    dtypes = ("float32", "float16", "bfloat16")
    yield ("op", *dtypes, "profiles", "kinds")
    for row in document["kernels"]:
        profiles = " ".join(row["profiles"].values())
        if "dtypes" not in row:
            yield (row["op"], *(row["unavailable"] for _ in dtypes), profiles, "-")
            continue
        cells = (_verdict(row["dtypes"][dtype]) if dtype in row["dtypes"] else "-" for dtype in dtypes)
        yield (row["op"], *cells, profiles, ", ".join(f["kind"] for f in row["findings"]) or "-")


def _verdict(dtype_row: Mapping[str, Any]) -> str:
    """ "fail at 3" or "pass 0.31": position of the first failure, or the largest score in bounds."""
    if dtype_row["first_failure"] is not None:
        return f"{dtype_row['status']} at {dtype_row['first_failure']}"
    if dtype_row["status"] != "pass":
        return str(dtype_row["status"])
    return f"pass {format_short(float(dtype_row['worst_passing_score']))}"


def _finding_lines(row: Mapping[str, Any], finding: Mapping[str, Any]) -> Iterator[Line]:
    yield make_line((f"{row['op']}: {finding['kind']}", LABEL_STYLE), f"  {count(finding['cases'], 'case')}")
    shown = finding["minimal"] or finding["first"]
    yield make_line(f"  {shown['summary']}")
    yield make_line(f"  {shown['verdict'].get('message', '')}")
    cause = finding["cause"]
    text = f"{ORIGIN_WORDS[cause['origin']]}: {cause['text']}" if cause else "no cause is recorded"
    yield make_line((f"  {text}", FAINT_STYLE))
