"""Study "controls" as a Markdown page and a plot: everything in them is read from the study's document."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuemu.model.scores import EDGES, Scores
from gpuemu.studies.page import (
    Document,
    describe_versions,
    drawing,
    has_matplotlib,
    make_table,
    write_with_plot,
)


def write_page(document: Document, folder: Path) -> list[Path]:
    """Write `controls.md` and, where matplotlib is installed, `controls.svg`; returns what was written."""
    return write_with_plot("controls", document, folder, render_markdown, draw_plot)


def render_markdown(document: Document, plot: str | None) -> str:
    """The page: the rate and its bound, then scores per profile, op, value class and implementation."""
    measured = (
        f"Measured by `gpuemu study controls --device {document['device']} --seed {document['seed']}` on "
        f"{document['device_name']} ({describe_versions(document)})."
    )
    statuses = ", ".join(f"{count} {status}" for status, count in sorted(document["statuses"].items()))
    found = (
        f"- **{document['false_alarms']} false alarms in {document['judged']} judged runs** (case x "
        f"implementation; {document['implementations']} implementations; {statuses})."
    )
    rate = (
        f"- At 95 % confidence the true rate is below {document['bound_on_rate_95']:.2g} a run, for runs drawn "
        "as these were (Clopper-Pearson; with no alarm the rule of three)."
    )
    rows = f"- {document['items']} of {document['items_planned']} rows (op x dtype x value class x round)."
    lines = ["# Study controls: false alarms on known-correct kernels", "", measured, "", found, rate, rows, ""]
    lines += ["Scores are the largest error of a run in units of its bound: 1 is the limit.", ""]
    if plot:
        lines += [f"![Scores per profile]({plot})", ""]
    for title, key in (
        ("Per profile and dtype", "by_profile"),
        ("Controls of a looser profile, under their op's default", "under_default"),
        ("Per op and dtype", "by_op"),
        ("Per value class and dtype", "by_value_class"),
        ("Per implementation", "by_implementation"),
    ):
        lines += [f"## {title}", "", *_score_table(document[key]), ""]
    lines += ["## False alarms", "", *(_alarm_lines(document) or ["None."])]
    return "\n".join(lines).rstrip() + "\n"


def _score_table(table: Mapping[str, Any]) -> list[str]:
    rows = []
    for key, entry in sorted(table.items()):
        scores = Scores.from_json(entry)
        over = scores.counts[-1]
        quantiles = [f"{scores.quantile(share):.3g}" for share in (0.5, 0.95, 0.99)]
        rows.append([key, str(scores.total), *quantiles, f"{scores.largest:.3g}", str(over)])
    header = ["", "runs", "median ≤", "95 % ≤", "99 % ≤", "worst", "above 1"]
    return make_table(header, rows) if rows else ["None."]


def _alarm_lines(document: Document) -> list[str]:
    lines = []
    for alarm in document["alarms"]:
        record = alarm["record"]
        verdict = record["verdict"]
        what = f"`{record['case']['op']}` {alarm['implementation']}, case {record['case_id']}"
        lines.append(f"- {what}: {verdict['status']} {verdict.get('kind', '')} {verdict.get('message', '')}")
    return lines


def draw_plot(document: Document, path: Path) -> bool:
    """Share of runs above a score, per profile and dtype; False without matplotlib."""
    if not has_matplotlib():
        return False
    with drawing(path, 8, 4.5) as axes:
        for key, entry in sorted(document["by_profile"].items()):
            scores = Scores.from_json(entry)
            above = [sum(scores.counts[i + 1 :]) / scores.total for i in range(len(EDGES))]
            axes.step(EDGES, above, where="post", label=key)
        axes.set_yscale("symlog", linthresh=1e-4)
        axes.axvline(1.0, color="black", linewidth=0.8, linestyle=":")
        axes.set_xlabel("score (dotted: the limit)")
        axes.set_ylabel("share of runs above")
        axes.legend(fontsize=8)
    return True
