"""What each protection and guard is worth: the hostile corpus checked with all, without one, and with none.

    python benchmarks/hostile_table.py [NAME …] [--json] [--device cpu|cuda] [--every-guard] [--jobs 1]

Columns: naive (tests/hostile/naive.py in both orders), protected (the default: worker, sandbox, every guard),
no sandbox (`--no-protect`), inline (`--runner inline`), and for each guard that a candidate's row names,
`--no-guard` of it (`--every-guard`: of all). Each is one `gpuemu check` in a folder of its own. "right": the
verdict that the corpus names; "PASSES": the candidate got through; other verdicts are written out; "LOST": no
report, the judge had ended; "HANGS"; "+harm": files, the store or processes were not as they should be.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from gpuemu import environment
from gpuemu.run.guards import GUARDS

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "hostile"))
import corpus
import project

WORKER = ("--runner", "worker")
RUN_TIMEOUT_S = 180.0


@dataclass(frozen=True)
class Mode:
    """A way of running: the heading of its column and the options of `gpuemu check`."""

    name: str
    options: tuple[str, ...]


PROTECTED = Mode("protected", WORKER)
NO_SANDBOX = Mode("no sandbox", (*WORKER, "--no-protect"))
INLINE = Mode("inline", ("--runner", "inline"))
NAIVE = Mode("naive", ())


def main() -> None:
    """Run what was asked for and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="candidates (default: all of the device)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--every-guard", action="store_true", help="switch off every guard for every candidate")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    chosen = [
        hostile
        for hostile in corpus.HOSTILE
        if hostile.device == arguments.device and hostile.name in (arguments.names or [hostile.name])
    ]
    work = [(hostile, mode) for hostile in chosen for mode in modes_of(hostile, arguments.every_guard)]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        cells = list(pool.map(lambda pair: run(*pair), work))
    rows = collect(chosen, cells)
    summary = summarise(rows)
    if arguments.json:
        head = {"environment": dict(environment.describe()), "device": arguments.device}
        print(json.dumps({**head, "summary": summary, "rows": rows}, indent=1))
    else:
        print_table(rows, summary)


def modes_of(hostile: corpus.Hostile, every_guard: bool) -> list[Mode]:
    """The columns in which a candidate has a cell."""
    guards = [guard for guard in GUARDS if every_guard or guard in hostile.stopped_by]
    return [
        NAIVE,
        PROTECTED,
        NO_SANDBOX,
        INLINE,
        *(Mode(f"no {guard}", (*WORKER, "--no-guard", guard)) for guard in guards),
    ]


def run(hostile: corpus.Hostile, mode: Mode) -> dict[str, Any]:
    """One cell."""
    if mode is NAIVE:
        return judge_naively(hostile)
    options = (*mode.options, "--timeout", str(hostile.call_timeout_s))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        outcome = project.check(
            hostile.name, hostile.op, Path(folder) / "project", options, hostile.device, RUN_TIMEOUT_S
        )
    print(f"{hostile.name}, {mode.name}: {outcome.status}", file=sys.stderr)
    return {
        "candidate": hostile.name,
        "mode": mode.name,
        "status": outcome.status,
        "kinds": list(outcome.kinds),
        "exit_code": outcome.exit_code,
        "harm": list(outcome.harm),
        "seconds": round(outcome.seconds, 2),
        "right": hostile.is_right(outcome.status, outcome.kinds, outcome.exit_code) and not outcome.harm,
        "got_through": outcome.status == corpus.PASS and corpus.PASS not in hostile.statuses,
    }


def judge_naively(hostile: corpus.Hostile) -> dict[str, Any]:
    """The naive judge's cell: what it says if it computes the reference first, and if it does so afterwards."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        said = [
            project.judge_naively(hostile.name, hostile.op, Path(folder) / order, order, hostile.device)
            for order in ("first", "after")
        ]
    print(f"{hostile.name}, naive: {', '.join(said)}", file=sys.stderr)
    accepted, harmless = "accepts" in said, corpus.PASS in hostile.statuses
    return {
        "mode": NAIVE.name,
        "candidate": hostile.name,
        "status": corpus.PASS if accepted else f"judge {said[0]}",
        "said": said,
        "kinds": [],
        "harm": [],
        "right": accepted == harmless and "gap" not in hostile.stopped_by,
        "got_through": accepted and not harmless,
    }


def collect(chosen: Sequence[corpus.Hostile], cells: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Cells by candidate and mode."""
    rows = {
        hostile.name: {
            "candidate": hostile.name,
            "hacks": list(hostile.hacks),
            "tries": hostile.tries,
            "expected": list(hostile.statuses),
            "stopped_by": list(hostile.stopped_by),
            "cells": {},
        }
        for hostile in chosen
    }
    for cell in cells:
        rows[cell["candidate"]]["cells"][cell["mode"]] = cell
    return list(rows.values())


def summarise(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """By mode: how many verdicts are right, and which candidates got through, ended the judge or did harm."""
    summary: dict[str, Any] = {}
    for row in rows:
        for mode, cell in row["cells"].items():
            part = summary.setdefault(
                mode, {"cells": 0, "right": 0, "got_through": [], "judge_ended": [], "harm": []}
            )
            part["cells"] += 1
            part["right"] += cell["right"]
            if cell["got_through"]:
                part["got_through"].append(row["candidate"])
            if cell["status"] in ("judge lost", "judge hangs"):
                part["judge_ended"].append(row["candidate"])
            if cell["harm"]:
                part["harm"].append(row["candidate"])
    return summary


def describe(cell: dict[str, Any] | None) -> str:
    """A cell in a word or two."""
    if cell is None:
        return ""
    if cell["right"]:
        return "right"
    words = {"judge lost": "LOST", "judge hangs": "HANGS"}
    word = "PASSES" if cell["got_through"] else words.get(cell["status"], cell["status"])
    kind = f" {cell['kinds'][0]}" if cell["kinds"] and not cell["got_through"] else ""
    return f"{word}{kind}{' +harm' if cell['harm'] else ''}"


def print_table(rows: Sequence[dict[str, Any]], summary: dict[str, Any]) -> None:
    """The table, then a line for each mode."""
    fixed = [mode.name for mode in (NAIVE, PROTECTED, NO_SANDBOX, INLINE)]
    table = Table(title="Hostile candidates")
    for heading in ("candidate", "HACKS", *fixed, "without the guard that its row names"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        cells = row["cells"]
        without = [f"{mode}: {describe(cell)}" for mode, cell in cells.items() if mode not in fixed]
        numbers = " ".join(map(str, row["hacks"]))
        table.add_row(row["candidate"], numbers, *(describe(cells.get(m)) for m in fixed), "\n".join(without))
    console = Console()
    console.print(table)
    for mode, part in summary.items():
        console.print(f"{mode}: {part['right']} of {part['cells']} right", style="bold")
        for name in ("got_through", "judge_ended", "harm"):
            if part[name]:
                console.print(f"  {name.replace('_', ' ')}: {', '.join(part[name])}")


if __name__ == "__main__":
    main()
