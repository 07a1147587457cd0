"""Study P2 in the terminal, read from its JSON document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpuemu.report.study_rows import missing_row_lines
from gpuemu.report.text import FAINT_STYLE, LABEL_STYLE, Line, columns, make_line


def study_lines(document: Mapping[str, Any], quiet: bool = False) -> Iterator[Line]:
    """The summary, then (unless quiet) a row per rule, and the calibrated rules under shift."""
    scored = document["scored"]
    facts = f"{document['device_name']}, seed {document['seed']}, {document['mutants']} mutants"
    yield make_line(("study p2", LABEL_STYLE), f"  {facts}", (f" in {document['seconds']:.0f} s", FAINT_STYLE))
    yield make_line(
        f"scored on {scored['controls']} control and {scored['mutants']} mutant runs that calibrated nothing"
    )
    yield from missing_row_lines(document)
    yield make_line()
    yield from columns(_rows("rule", document["by_values"]["all"]))
    if quiet:
        return
    yield make_line()
    yield make_line(("calibrated on uniform and bell-shaped values, scored on", LABEL_STYLE))
    for group, table in document["shift"].items():
        yield from columns(_rows(f"{group} values", table))
    if document["missed"]:
        yield make_line((f"never rejected: {', '.join(document['missed'])}", FAINT_STYLE))


def _rows(heading: str, table: Mapping[str, Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [(heading, "false alarms", "functional", "kernels", "precision", "kernels")]
    for name, figures in table.items():
        alarms = f"{figures['false_alarms']} of {figures['controls']} ({_percent(figures['rate'])})"
        parts = [
            text
            for kind in ("functional", "precision")
            for text in (
                _percent(figures[kind]["recall"]),
                f"{figures[kind]['kernels_found']} of {figures[kind]['kernels']}",
            )
        ]
        rows.append((name, alarms, *parts))
    return rows


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.3g} %"
