"""Study P1 as a Markdown page and a plot: everything in them is read from the study's document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gpuemu.studies.page import (
    Document,
    describe_versions,
    drawing,
    has_matplotlib,
    make_table,
    write_with_plot,
)


def write_page(document: Document, folder: Path) -> list[Path]:
    """Write `p1.md` and, where matplotlib is installed, `p1.svg` into a folder; returns what was written."""
    return write_with_plot("p1", document, folder, render_markdown, draw_plot)


def render_markdown(document: Document, plot: str | None) -> str:
    """The page: summary, baselines, one row per kernel."""
    bugs, controls = document["bugs"], document["controls"]
    measured = (
        f"Measured by `gpuemu study p1 --device {document['device']} --seed {document['seed']}` on "
        f"{document['device_name']} in {document['seconds']:.0f} s ({describe_versions(document)})."
    )
    found = (
        f"- gpuemu: **{bugs['detected']} of {bugs['total']} bugs found** (in every dtype: "
        f"{bugs['detected_in_every_dtype']}), each within {bugs['max_cases_to_first_failure']} cases; "
        f"**{controls['false_alarms']} of {controls['total']} controls flagged**; worst score of a control "
        f"{controls['worst_score']:.2f} of its bound; {document['cases']} cases."
    )
    lines = ["# Study P1: the correctness illusion", "", measured, "", found]
    lines += [f"- {note}" for note in document["notes"]]
    lines += ["", "## What one-shape oracles accept", ""]
    lines += make_table(
        ["oracle", "bugs accepted", "which", "controls rejected"],
        [_baseline_row(name, row, bugs["total"]) for name, row in document["baselines"].items()],
    )
    lines += ["", "A kernel counts as accepted when the oracle accepts it in each of the three dtypes.", ""]
    if plot:
        lines += [f"![Cases to first failure]({plot})", ""]
    lines += ["## Kernels", ""]
    lines += make_table(
        [
            "kernel",
            "role",
            "verdict (float32 / float16 / bfloat16)",
            "first failing case",
            "smallest failing case",
        ],
        [_kernel_row(row) for row in document["kernels"]],
    )
    return "\n".join(lines) + "\n"


def _baseline_row(name: str, row: Mapping[str, Sequence[str]], total: int) -> list[str]:
    accepted = row["accepted_bugs"]
    rejected = ", ".join(row["rejected_controls"]) or "none"
    return [f"`{name}`", f"{len(accepted)} of {total}", ", ".join(accepted) or "none", rejected]


def _kernel_row(row: Document) -> list[str]:
    verdicts, positions = [], []
    for dtype_row in row["dtypes"].values():
        failure = dtype_row.get("first_failure")
        verdicts.append(
            f"{failure['verdict']['status']}: {failure['verdict'].get('kind', '')}" if failure else "pass"
        )
        positions.append(str(dtype_row["cases_to_first_failure"] or "-"))
    minimal = row["minimal"]
    return [
        f"`{row['name']}`",
        row["role"],
        " / ".join(verdicts),
        " / ".join(positions) if any(p != "-" for p in positions) else "",
        minimal["summary"] if minimal else "",
    ]


def draw_plot(document: Document, path: Path) -> bool:
    """Cases to first failure per bug and dtype, beside the number of cases; False without matplotlib."""
    if not has_matplotlib():
        return False
    buggy = [row for row in document["kernels"] if row["role"] == "buggy"]
    dtypes = list(buggy[0]["dtypes"])
    with drawing(path, 8, 0.42 * len(buggy) + 1.2) as axes:
        for position, dtype in enumerate(dtypes):
            offsets = [index + 0.26 * (position - 1) for index in range(len(buggy))]
            values = [row["dtypes"][dtype]["cases_to_first_failure"] or 0 for row in buggy]
            axes.barh(offsets, values, height=0.24, label=dtype)
        axes.axvline(8, color="black", linewidth=0.8, linestyle=":")
        axes.set_yticks(range(len(buggy)), [row["name"] for row in buggy], fontsize=8)
        axes.invert_yaxis()
        axes.set_xlabel("cases until the first failure (dotted: 8)")
        axes.legend(fontsize=8)
    return True
