"""The oracle's self-test in the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gpuemu.report.text import LABEL_STYLE, Line, columns, format_short, make_line

SHOWN = 3  # wrong answers per op


def self_test_lines(results: Sequence[Any], quiet: bool = False) -> Iterator[Line]:
    """The verdict, each wrong answer, then (unless quiet) a row per op.

    Args:
        results: of `gpuemu.self_test.self_test`.
    """
    probes, blind = sum(r.probes for r in results), [r for r in results if not r.passed]
    cases = sum(r.cases for r in results)
    style = "bold red" if blind else "bold green"
    said = f"{len(blind)} blind" if blind else "nowhere blind"
    facts = f"  {len(results)} ops, {cases} cases, {probes} stored values asked about"
    yield make_line(("self-test", LABEL_STYLE), facts, (f"; {said}", style))
    for result in blind:
        for failure in result.failures[:SHOWN]:
            yield make_line((f"  {result.op}: ", "red"), failure)
    if quiet:
        return
    yield make_line()
    heading = ("op", "cases", "probes", "judged elements", "median visible error", "")
    rows: list[tuple[str, ...]] = [heading]
    for r in results:
        share = f"{r.judged / r.elements:.1%}" if r.elements else "-"
        visible = format_short(r.visible) if r.visible is not None else "-"
        remark = (
            r.note or ("" if r.passed else "BLIND") or (f"generic: {', '.join(r.generic)}" if r.generic else "")
        )
        rows.append((r.op, str(r.cases), str(r.probes), share, visible, remark))
    yield from columns(rows)
