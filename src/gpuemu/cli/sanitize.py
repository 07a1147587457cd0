"""`gpuemu sanitize RUN [CASE]`: a recorded case under NVIDIA's compute-sanitizer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuemu.cli import consoles, options
from gpuemu.cli.conclude import print_json
from gpuemu.config import load_configuration
from gpuemu.errors import EXIT_CANDIDATE_FAILED, EXIT_NOTHING_ESTABLISHED, EXIT_PASSED

if TYPE_CHECKING:
    from gpuemu.model.sanitizer import SanitizerResult
    from gpuemu.sanitizing import Sanitized

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
EPILOG = "Exit codes: 0 clean, 1 a tool found something, 4 no tool could be believed."


@click.command("sanitize", epilog=EPILOG)
@click.argument("run")
@click.argument("case", required=False)
@click.option("--tool", "tools", type=click.Choice(TOOLS), multiple=True,
              help="Only this tool; may be repeated.")  # fmt: skip
@click.option("--timeout", "timeout_s", type=click.FloatRange(0, min_open=True), default=300.0,
              metavar="SECONDS", show_default=True, help="How long a tool may take a time.")  # fmt: skip
@options.device_option
@options.output_options
def command(
    run: str,
    case: str | None,
    tools: tuple[str, ...],
    timeout_s: float,
    device: str | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Run compute-sanitizer on a case of RUN (an id, a unique prefix or "latest").

    CASE is an id too; without it, it is the shrunk failure, else the smallest case. A tool counts as "clean"
    only if it finds a bug planted for it on this machine. The kernel runs with your rights, outside the worker.
    """
    from gpuemu import sanitizing

    store = load_configuration(Path.cwd()).store_path
    with consoles.working("sanitizing", quiet):
        found = sanitizing.sanitize(run, case, store, device, tools or TOOLS, timeout_s=timeout_s)
    code = exit_code(found.results)
    if as_json:
        print_json({**found.to_json(), "exit_code": code})
    else:
        _show(found, quiet)
    return code


def exit_code(results: tuple[SanitizerResult, ...]) -> int:
    """1 if any tool found something, 4 if none could be believed."""
    states = {result.state for result in results}
    if "findings" in states:
        return EXIT_CANDIDATE_FAILED
    return EXIT_PASSED if "clean" in states else EXIT_NOTHING_ESTABLISHED


def _show(found: Sanitized, quiet: bool) -> None:
    console = consoles.make_console()
    if not quiet:
        console.print(f"{found.run.target}  {found.record.case.summary()}", highlight=False)
    for result in found.results:
        console.print(
            f"{result.tool:10} {result.state}  {result.reason}".rstrip(), highlight=False, markup=False
        )
        for one in result.findings:
            times = f"{one.count} x " if one.count > 1 else ""
            for line in (f"{times}{one.kind}", one.place and f"at {one.place}", one.example):
                if line:
                    console.print(f"           {line}", highlight=False, markup=False)
