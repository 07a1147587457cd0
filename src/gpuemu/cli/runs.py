"""`gpuemu runs [RUN]`: what the store of this project holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuemu.cli import consoles, options
from gpuemu.cli.conclude import print_json
from gpuemu.config import load_configuration

if TYPE_CHECKING:
    from gpuemu.model.record import Record, Run

UNFINISHED = "unfinished"


@click.command("runs")
@click.argument("run", required=False)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, metavar="N",
              help="Show the N newest runs.")  # fmt: skip
@options.output_options
def command(run: str | None, limit: int, as_json: bool, quiet: bool) -> int:
    """List the recorded runs, newest first, or show the cases of RUN (an id, a unique prefix or "latest")."""
    from gpuemu.store.sqlite import Store

    with Store(load_configuration(Path.cwd()).store_path) as store:
        if run is None:
            counted = [(one, status, store.count_records(one.id)) for one, status in store.list_runs(limit)]
            if as_json:
                print_json({"runs": [_describe(*one) for one in counted]})
            else:
                _show_runs(counted, quiet)
            return 0
        found, status = store.load_run(run)
        records, message = store.load_records(found.id), store.load_message(found.id)
    if as_json:
        cases = [record.to_json() for record in records]
        print_json({**_describe(found, status, len(records)), "message": message, "records": cases})
    else:
        _show_run(found, status, message, records)
    return 0


def _describe(run: Run, status: str | None, cases: int) -> dict[str, Any]:
    return {"run": run.to_json(), "status": status or UNFINISHED, "cases": cases}


def _show_runs(counted: list[tuple[Run, str | None, int]], quiet: bool) -> None:
    from rich.table import Table

    table = Table(box=None, show_header=not quiet, pad_edge=False)
    for heading in ("run", "kernel", "op", "device", "cases", "status"):
        table.add_column(heading, justify="right" if heading == "cases" else "left", no_wrap=heading == "run")
    for run, status, cases in counted:
        kernel = run.target.rpartition("/")[2]
        table.add_row(run.id, kernel, run.op, run.device, str(cases), status or UNFINISHED)
    consoles.make_console().print(table)


def _show_run(run: Run, status: str | None, message: str, records: list[Record]) -> None:
    console = consoles.make_console()
    lines = [f"{run.id}  {run.target}  op {run.op}, {run.device}, seed {run.seed}, {run.mode}"]
    lines.append(f"{status or UNFINISHED}  {message or f'{len(records)} cases have a record'}")
    for record in records:
        verdict = record.verdict
        kind = f" {verdict.kind}" if verdict.kind else ""
        lines.append(f"{record.index + 1:4d}  {record.case.id}  {verdict.status}{kind}  {verdict.message}")
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if status is None or status == "interrupted":
        console.print(f"resume  gpuemu check --resume {run.id}", markup=False, highlight=False)
