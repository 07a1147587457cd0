"""Study P2 as a Markdown page and plots: everything in them is read from the study's document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuemu.studies.p2_summary import OURS
from gpuemu.studies.page import Document, describe_versions, drawing, has_matplotlib, make_table

GROUPS = {
    "all": "All value classes",
    "benign": "Uniform and bell-shaped values",
    "other": "Structured values (offset, negative, log-uniform, integers, impulses, all equal)",
    "hard": "Hard values (adversarial, dense and sparse NaN and infinities)",
}


def write_page(document: Document, folder: Path) -> list[Path]:
    """Write `p2.md` and, where matplotlib is installed, its plots; returns what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    plots = []
    if has_matplotlib():
        plots = [
            draw_rules(document, folder / "p2-rules.svg"),
            draw_constants(document, folder / "p2-constants.svg"),
        ]
    page = folder / "p2.md"
    page.write_text(render_markdown(document, [plot.name for plot in plots]), encoding="utf-8")
    return [page, *plots]


def render_markdown(document: Document, plots: Sequence[str]) -> str:
    """The page: rules per group of value classes, rescaled rules, shift, dtypes, families, constants."""
    scored = document["scored"]
    command = f"gpuemu study p2 --device {document['device']} --seed {document['seed']}"
    measured = f"Measured by `{command}` on {document['device_name']} ({describe_versions(document)})."
    what = (
        f"{document['runs']} runs; scored are the {scored['controls']} control and {scored['mutants']} mutant "
        f"runs of the rounds that calibrated nothing; {document['mutants']} mutants; {document['items']} of "
        f"{document['items_planned']} rows."
    )
    recall = (
        "Recall per case counts runs that are observably different from every control (ORACLE.md section 9); "
        "recall per kernel, mutants that some such run convicts. Inconclusive cases count as let through. A "
        "rule that cannot judge an op abstains there."
    )
    lines = ["# Study P2: tolerance calibration", "", measured, "", what, "", recall, ""]
    lines += [line for plot in plots for line in (f"![{plot}]({plot})", "")]
    for group, title in GROUPS.items():
        lines += [f"## {title}", "", *_figures_table(document["by_values"][group]), ""]
    lines += ["## Every rival rescaled to no (finite) alarm on the calibrating half", ""]
    lines += [*_figures_table(document["rescaled"]), ""]
    lines += ["## Under shift: calibrated on uniform and bell-shaped values, scored on each group", ""]
    for group, table in document["shift"].items():
        lines += [f"### {GROUPS[group]}", "", *_figures_table(table), ""]
    lines += ["## Our rule at other constants", "", *_figures_table(document["constants"], "constant"), ""]
    for title, key in (("dtype", "by_dtype"), ("op family", "by_family"), ("op and dtype", "by_cell")):
        lines += [f"## Per {title}", ""]
        for name, table in document[key].items():
            lines += [f"### {name}", "", *_figures_table(table), ""]
    missed = ", ".join(f"`{name}`" for name in document["missed"]) or "none"
    lines += ["## Mutants that our rule never rejects here", "", missed]
    return "\n".join(lines) + "\n"


def _figures_table(table: Mapping[str, Any], heading: str = "rule") -> list[str]:
    header = [heading, "false alarms", "rate", "rate below (95 %)"]
    header += ["functional: cases", "kernels", "precision: cases", "kernels"]
    rows = []
    for name, figures in table.items():
        rows.append(
            [
                f"**{name}**" if name == OURS else name,
                f"{figures['false_alarms']} of {figures['controls']}",
                _percent(figures["rate"]),
                _percent(figures["bound_on_rate_95"]),
                _percent(figures["functional"]["recall"]),
                _kernels(figures["functional"]),
                _percent(figures["precision"]["recall"]),
                _kernels(figures["precision"]),
            ]
        )
    return make_table(header, rows)


def _percent(share: float | None) -> str:
    if share is None:
        return "-"
    return f"{100 * share:.3g} %"


def _kernels(figures: Mapping[str, Any]) -> str:
    return f"{figures['kernels_found']} of {figures['kernels']}" if figures["kernels"] else "-"


def draw_rules(document: Document, path: Path) -> Path:
    """Recall against false alarms, a point per rule."""
    with drawing(path, 8, 5) as axes:
        for name, figures in document["by_values"]["all"].items():
            rate, recall = figures["rate"], figures["functional"]["recall"]
            if rate is None or recall is None:
                continue
            point = (100 * rate, 100 * recall)
            axes.scatter(*point, marker="*" if name == OURS else "o", s=120 if name == OURS else 40)
            axes.annotate(name, point, fontsize=8, xytext=(5, 3), textcoords="offset points")
        axes.set_xlabel("false alarms on known-correct kernels, % of runs")
        axes.set_ylabel("functional faults found, % of observable runs")
    return path


def draw_constants(document: Document, path: Path) -> Path:
    """Our rule's recall and false alarms as its constant grows."""
    constants = [float(constant) for constant in document["constants"]]
    with drawing(path, 8, 4) as axes:
        for kind in ("functional", "precision"):
            recalls = [100 * (f[kind]["recall"] or 0.0) for f in document["constants"].values()]
            axes.plot(constants, recalls, marker="o", label=f"{kind} recall, % of observable runs")
        rates = [100 * (figures["rate"] or 0.0) for figures in document["constants"].values()]
        axes.plot(constants, rates, marker="x", label="false alarms, % of runs")
        axes.set_xscale("log", base=2)
        axes.set_xlabel("constant that the bound is multiplied by")
        axes.legend(fontsize=8)
    return path
