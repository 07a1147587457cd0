"""Study "controls" in the terminal, read from its JSON document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpuemu.report.study_rows import missing_row_lines
from gpuemu.report.text import FAINT_STYLE, LABEL_STYLE, Line, columns, format_short, make_line


def study_lines(document: Mapping[str, Any], quiet: bool = False) -> Iterator[Line]:
    """The summary, each false alarm, then (unless quiet) the scores per profile and dtype."""
    facts = f"{document['device_name']}, seed {document['seed']}, {document['implementations']} implementations"
    seconds = f" in {document['seconds']:.0f} s"
    yield make_line(("study controls", LABEL_STYLE), f"  {facts}", (seconds, FAINT_STYLE))
    alarms = document["false_alarms"]
    yield make_line(
        (f"{alarms} false alarms", "bold red" if alarms else "bold green"),
        f" in {document['judged']} judged of {document['runs']} runs; the true rate is below "
        f"{document['bound_on_rate_95']:.2g} (95 %) for runs drawn as these were",
    )
    yield from missing_row_lines(document)
    for alarm in document["alarms"]:
        verdict = alarm["record"]["verdict"]
        what = f"{alarm['record']['case']['op']} {alarm['implementation']}: {verdict['status']}"
        yield make_line((what, "red"), f" {verdict.get('message', '')}")
    if quiet:
        return
    yield make_line()
    rows = [("profile, dtype", "runs", "exact", "worst score")]
    for key, scores in sorted(document["by_profile"].items()):
        total = sum(scores["counts"])
        rows.append(
            (key, str(total), f"{scores['counts'][0] / total:.0%}", format_short(float(scores["largest"])))
        )
    yield from columns(rows)
