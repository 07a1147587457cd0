"""How many plans of hard values find each buggy kernel of the corpus, and how many controls they alarm.

    python benchmarks/hard_inputs.py [--seeds 10] [--control-seeds 4] [--budget 8] [--classes LIST]
        [--kernels LIST] [--json] [--output FOLDER] [--parts FILE ...]

A plan draws one hard value class, as `gpuemu check KERNEL --values CLASS --budget 8 --seed N` does; the seeds
are 0 to N - 1, for controls fewer. "found": a case of the plan fails. "reported": one fails or is flagged
`nan_semantics`, a NaN that the reference keeps and the kernel swallows. An alarm is a case of a control that
fails or raises. Runs of other kernels or classes, made side by side with --json, are put together by --parts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpuemu import environment
from gpuemu.candidates import loader
from gpuemu.checking import make_campaign
from gpuemu.corpus.catalogue import CorpusKernel, load_catalogue
from gpuemu.model.case import Plan
from gpuemu.model.record import Record
from gpuemu.model.verdict import Flag, Status
from gpuemu.ops.registry import get_op
from gpuemu.planning.plan import make_plan

CLASSES = ("adversarial", "nan_injected")
ALARMS = (Status.FAIL, Status.ERROR)


@dataclass(frozen=True)
class Row:
    """One kernel under one value class.

    found, reported: per seed the place of the first such case, from 1; None where there is none.
    alarms: failing cases, and flagged: cases with `nan_semantics`, of the `cases` that ran; judged: those of
    them with a verdict.
    """

    kernel: str
    role: str
    value_class: str
    found: tuple[int | None, ...]
    reported: tuple[int | None, ...]
    cases: int
    judged: int
    alarms: int
    flagged: int


def make_hard_plan(kernel: CorpusKernel, value_class: str, budget: int, seed: int) -> Plan:
    """The plan that `gpuemu check` makes for a kernel and a value class."""
    blocks = loader.read_blocks(f"{kernel.path}::{kernel.function}")
    return make_plan(
        get_op(kernel.op), budget=budget, seed=seed, value_classes=[value_class], block_sizes=blocks
    )


def measure(kernel: CorpusKernel, value_class: str, budget: int, seeds: Sequence[int]) -> Row:
    """Run one plan a seed; a buggy kernel's stops at its first failure."""
    candidate = loader.load(f"{kernel.path}::{kernel.function}", "cpu")
    campaign = make_campaign(get_op(kernel.op), candidate, "cpu")
    found: list[int | None] = []
    reported: list[int | None] = []
    records: list[Record] = []
    for seed in seeds:
        first: dict[str, int | None] = {"found": None, "reported": None}
        for place, case in enumerate(make_hard_plan(kernel, value_class, budget, seed).cases, start=1):
            record = campaign.run_case(case)
            records.append(record)
            failed = record.verdict.status in ALARMS
            if first["reported"] is None and (failed or Flag.NAN_SEMANTICS in record.verdict.flags):
                first["reported"] = place
            if failed and first["found"] is None:
                first["found"] = place
                if kernel.role == "buggy":
                    break
        found.append(first["found"])
        reported.append(first["reported"])
    verdicts = [record.verdict for record in records]
    return Row(
        kernel.name,
        kernel.role,
        value_class,
        tuple(found),
        tuple(reported),
        len(verdicts),
        sum(verdict.status is not Status.INCONCLUSIVE for verdict in verdicts),
        sum(verdict.status in ALARMS for verdict in verdicts),
        sum(Flag.NAN_SEMANTICS in verdict.flags for verdict in verdicts),
    )


def rows(
    classes: Sequence[str], names: Sequence[str], budget: int, seeds: int, control_seeds: int
) -> Iterator[Row]:
    """A row per buggy kernel and class, then one per control and class."""
    kernels = sorted(load_catalogue(), key=lambda kernel: (kernel.role, kernel.name))
    for kernel in kernels:
        if not names or kernel.name in names:
            for value_class in classes:
                number = seeds if kernel.role == "buggy" else control_seeds
                yield measure(kernel, value_class, budget, range(number))


def count(places: Sequence[int | None]) -> str:
    """How many plans have such a case, and where it stands at the latest: "20 of 20 (≤ 3)"."""
    kept = [place for place in places if place is not None]
    return f"{len(kept)} of {len(places)}" + (f" (≤ {max(kept)})" if kept else "")


def summarise(measured: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """Per class: kernels found by every plan, plans that find theirs, control alarms."""
    summary: dict[str, dict[str, Any]] = {}
    for value_class in dict.fromkeys(row.value_class for row in measured):
        buggy = [row for row in measured if row.role == "buggy" and row.value_class == value_class]
        controls = [row for row in measured if row.role == "control" and row.value_class == value_class]
        summary[value_class] = {
            "buggy_kernels": len(buggy),
            "found_by_every_plan": sum(None not in row.found for row in buggy),
            "reported_by_every_plan": sum(None not in row.reported for row in buggy),
            "plans": sum(len(row.found) for row in buggy),
            "plans_that_find": sum(place is not None for row in buggy for place in row.found),
            "plans_that_report": sum(place is not None for row in buggy for place in row.reported),
            "controls": len(controls),
            "control_cases": sum(row.cases for row in controls),
            "control_cases_judged": sum(row.judged for row in controls),
            "control_alarms": sum(row.alarms for row in controls),
        }
    return summary


def make_tables(measured: Sequence[Row]) -> dict[str, list[tuple[str, ...]]]:
    """Title to rows, heading first: the buggy kernels and the controls."""
    found = [("buggy kernel", "value class", "found", "reported")]
    controls = [("control", "value class", "cases", "judged", "alarms", "nan_semantics")]
    for row in measured:
        if row.role == "buggy":
            found.append((row.kernel, row.value_class, count(row.found), count(row.reported)))
        else:
            cells = (row.cases, row.judged, row.alarms, row.flagged)
            controls.append((row.kernel, row.value_class, *map(str, cells)))
    tables = {"Plans that find the buggy kernel": found, "Controls": controls}
    return {title: rows for title, rows in tables.items() if len(rows) > 1}


def sentences(measured: Sequence[Row]) -> Iterator[str]:
    """One a class: what all plans together found."""
    for value_class, totals in summarise(measured).items():
        yield (
            f"{value_class}: {totals['found_by_every_plan']} of {totals['buggy_kernels']} buggy kernels found "
            f"by every plan, {totals['plans_that_find']} of {totals['plans']} plans find theirs "
            f"({totals['plans_that_report']} report it); {totals['control_alarms']} alarms in "
            f"{totals['control_cases']} cases of {totals['controls']} controls."
        )


def show(measured: Sequence[Row]) -> None:
    """Print both tables and the sentences."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for title, (heading, *body) in make_tables(measured).items():
        table = Table(*heading, title=title)
        for cells in body:
            table.add_row(*cells)
        console.print(table)
    for sentence in sentences(measured):
        console.print(sentence, highlight=False)


def make_page(measured: Sequence[Row], document: dict[str, Any]) -> str:
    """The recorded page, in Markdown."""
    versions = document["environment"]
    named = ", ".join(f"{name} {versions[name]}" for name in ("python", "torch", "triton") if name in versions)
    measured_by = (
        f"Measured by `{document['command']}` on CPU (Triton interpreter), {os.cpu_count()} cores, "
        f"{platform.machine()}, in {document['seconds']:.0f} s, summed over "
        f"{document['processes']} processes ({named}). Each cell counts plans of "
        f"{document['budget']} cases, one a seed from 0 to {document['seeds'] - 1} "
        f"(controls: to {document['control_seeds'] - 1}); (≤ n) is the latest place "
        "of the first such case."
    )
    lines = [
        "# Hard inputs: the published value classes under our oracle",
        "",
        measured_by,
        "",
        *(str(__doc__).strip().splitlines()[5:]),
        "",
        *(f"- {sentence}" for sentence in sentences(measured)),
    ]
    for title, (heading, *body) in make_tables(measured).items():
        rule = ("---",) * len(heading)
        lines += ["", f"## {title}", "", *("| " + " | ".join(cells) + " |" for cells in (heading, rule, *body))]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, then print tables or one JSON document, and record both."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--control-seeds", type=int, default=4)
    parser.add_argument("--budget", type=int, default=8)
    parser.add_argument("--classes", default=",".join(CLASSES))
    parser.add_argument("--kernels", default="")
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--parts", type=Path, nargs="+", default=[], help="combine these documents, measure nothing"
    )
    parser.add_argument("--output", type=Path, help="also write hard_inputs.json and .md into this folder")
    arguments = parser.parse_args()
    started = time.perf_counter()
    parts = [json.loads(path.read_text()) for path in arguments.parts]
    if parts:
        measured = [Row(**row) for part in parts for row in part["rows"]]
        measured.sort(key=lambda row: (row.role, row.kernel, row.value_class))
    else:
        names = [name for name in arguments.kernels.split(",") if name]
        classes = arguments.classes.split(",")
        measured = list(rows(classes, names, arguments.budget, arguments.seeds, arguments.control_seeds))
    for part in parts:  # they name what they measured
        arguments.budget, arguments.seeds = part["budget"], part["seeds"]
        arguments.control_seeds = part["control_seeds"]
    flags = [f"--seeds {arguments.seeds} --control-seeds {arguments.control_seeds} --budget {arguments.budget}"]
    document = {
        "command": " ".join(["python benchmarks/hard_inputs.py", *(flags if parts else sys.argv[1:])]),
        "budget": arguments.budget,
        "seeds": arguments.seeds,
        "control_seeds": arguments.control_seeds,
        "processes": len(parts) or 1,
        "seconds": round(sum(part["seconds"] for part in parts) or time.perf_counter() - started, 1),
        "environment": dict(environment.describe()),
        "summary": summarise(measured),
        "rows": [asdict(row) for row in measured],
    }
    if arguments.json:
        print(json.dumps(document))
    else:
        show(measured)
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        (arguments.output / "hard_inputs.json").write_text(json.dumps(document) + "\n")
        (arguments.output / "hard_inputs.md").write_text(make_page(measured, document))


if __name__ == "__main__":
    main()
