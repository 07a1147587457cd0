"""`gpuemu study NAME`: measure a study's figures in one command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from gpuemu.cli import consoles, options
from gpuemu.cli.conclude import print_json
from gpuemu.errors import EXIT_PASSED, UsageError


@dataclass(frozen=True)
class Study:
    """Where a study's parts are: run_study(device, seed, progress), write_page(document, folder), lines.

    resumable: whether the runner takes `journal` and `minutes` too, and goes on where it was stopped.
    """

    summary: str
    runner: str
    page: str
    lines: str
    resumable: bool = False

    def load(self, part: str) -> Callable[..., Any]:
        """A part, imported now."""
        module, _, name = getattr(self, part).partition(":")
        function: Callable[..., Any] = getattr(import_module(module), name)
        return function


STUDIES: Mapping[str, Study] = {
    "p1": Study(
        "the correctness illusion: what one-shape oracles accept and what gpuemu finds",
        runner="gpuemu.studies.p1:run_study",
        page="gpuemu.studies.p1_page:write_page",
        lines="gpuemu.report.study_p1:study_lines",
    ),
    "p2": Study(
        "tolerance calibration: recall and false alarms of our rule and of other projects'",
        runner="gpuemu.studies.p2:run_study",
        page="gpuemu.studies.p2_page:write_page",
        lines="gpuemu.report.study_p2:study_lines",
        resumable=True,
    ),
    "controls": Study(
        "known-correct kernels on every value class: false alarms and scores",
        runner="gpuemu.studies.controls:run_study",
        page="gpuemu.studies.controls_page:write_page",
        lines="gpuemu.report.study_controls:study_lines",
        resumable=True,
    ),
    "real-kernels": Study(
        "Triton kernels from PyPI packages, with the cause of each finding",
        runner="gpuemu.studies.real_kernels:run_study",
        page="gpuemu.studies.real_kernels_page:write_page",
        lines="gpuemu.report.study_real_kernels:study_lines",
    ),
}


@click.command(
    "study", epilog="Studies: " + "; ".join(f"{name}, {study.summary}" for name, study in STUDIES.items())
)
@click.argument("name")
@options.device_option
@options.seed_option
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
              help="Also write the study's JSON, Markdown page and plot here.")  # fmt: skip
@click.option("--journal", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Keep finished rows here and go on from them (long studies).")  # fmt: skip
@click.option("--minutes", type=click.FloatRange(0, min_open=True), metavar="N",
              help="Begin no row after this time (long studies).")  # fmt: skip
@options.output_options
def command(
    name: str,
    device: str | None,
    seed: int | None,
    output: Path | None,
    journal: Path | None,
    minutes: float | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Run the study NAME and show its figures, every one measured in this run. The seed is 0 unless given."""
    study = _find_study(name)
    given = {key: value for key, value in (("journal", journal), ("minutes", minutes)) if value is not None}
    if given and not study.resumable:
        raise UsageError(f"study {name} runs in one go: --{' and --'.join(given)} do not apply")
    with consoles.working(f"study {name}", quiet) as advance:
        document = study.load("runner")(
            device=device or "cpu",
            seed=seed or 0,
            progress=lambda part, done, total: advance(done, total, part),
            **given,
        )
    if output is not None:
        _write(name, study, document, output, quiet)
    if as_json:
        print_json(document)
    else:
        _show(study.load("lines")(document, quiet))
    return EXIT_PASSED


def _find_study(name: str) -> Study:
    if name in STUDIES:
        return STUDIES[name]
    raise UsageError(f"unknown study {name!r}; known: {', '.join(STUDIES)}")


def _write(name: str, study: Study, document: Mapping[str, Any], folder: Path, quiet: bool) -> None:
    from gpuemu.report.json_text import dump

    try:
        written = list(study.load("page")(document, folder))
        path = folder / f"{name}.json"
        path.write_text(dump(document) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--output {folder}: cannot be written: {error.strerror}") from error
    if not quiet:
        names = ", ".join(str(file) for file in (path, *written))
        click.echo(f"written: {names}", err=True)


def _show(lines: Iterable[Any]) -> None:
    from gpuemu.report.terminal import print_lines

    print_lines(lines, consoles.make_console())
