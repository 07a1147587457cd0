"""The cross-oracle audit in the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from gpuemu.model.audit import Audit, Disagreement
from gpuemu.report.text import FAINT_STYLE, LABEL_STYLE, Line, columns, format_decimal, format_short, make_line

SHOWN = 2  # disagreements per rule and direction


def audit_lines(audit: Audit) -> Iterator[Line]:
    """A table of the rules, then the first disagreements of each with the element that decides."""
    yield make_line()
    yield make_line(("audit", LABEL_STYLE), "  the same outputs by other projects' rules")
    heading = (
        "rule",
        "accepts",
        "rejects",
        "abstains",
        "accepts what gpuemu rejects",
        "rejects what it accepts",
    )
    rows: list[tuple[str, ...]] = [heading]
    for name, count in audit.rules.items():
        looser, stricter = (len(_of(audit, name, accepts)) for accepts in (True, False))
        numbers = (count.accepted, count.rejected, count.abstained, looser, stricter)
        rows.append((name, *map(str, numbers)))
    yield from columns(rows)
    for name in audit.rules:
        for accepts in (True, False):
            found = _of(audit, name, accepts)
            for disagreement in found[:SHOWN]:
                yield _line(disagreement)
            if len(found) > SHOWN:
                yield make_line((f"    and {len(found) - SHOWN} more (--json has all)", FAINT_STYLE))


def _of(audit: Audit, rule: str, accepts: bool) -> list[Disagreement]:
    return [d for d in audit.disagreements if d.rule == rule and d.accepts is accepts]


def _line(found: Disagreement) -> Line:
    what = "accepts" if found.accepts else "rejects"
    values = f"{format_decimal(found.actual)} for {format_decimal(found.expected)}"
    element = f"element {found.index} of output {found.output} is {values}"
    units, score = format_short(found.error_bound_units), format_short(found.rule_score)
    scores = f"{units} bounds, {score} of its tolerance"
    return make_line((f"  {found.rule} {what}: ", "yellow"), f"{element} ({scores}); {found.summary}")
