"""`gpuemu replay RUN CASE`: repeat a recorded case and compare."""

from __future__ import annotations

from pathlib import Path

import click

from gpuemu.cli import consoles, options
from gpuemu.cli.conclude import print_json
from gpuemu.cli.exit_codes import replay_exit_code
from gpuemu.config import load_configuration

EPILOG = "Exit codes: 0 the recorded verdict is repeated, 1 it is another, 3 the input bytes are others."


@click.command("replay", epilog=EPILOG)
@click.argument("run")
@click.argument("case")
@options.device_option
@options.output_options
def command(run: str, case: str, device: str | None, as_json: bool, quiet: bool) -> int:
    """Repeat the case CASE of the run RUN, both as ids or unique prefixes; RUN may be "latest"."""
    from gpuemu import replay

    store = load_configuration(Path.cwd()).store_path
    with consoles.working("replaying", quiet):
        result = replay.replay(run, case, store, device)
    if not quiet:
        consoles.show_printed(result.printed)
    code = replay_exit_code(result.same_inputs, result.same_verdict)
    if as_json:
        print_json(
            {
                "run": result.run.to_json(),
                "recorded": result.recorded.to_json(),
                "repeated": result.repeated.to_json(),
                "same_inputs": result.same_inputs,
                "same_outputs": result.same_outputs,
                "same_verdict": result.same_verdict,
                "source_changed": result.source_changed,
                "device": device or result.run.device,
                "exit_code": code,
            }
        )
        return code
    from gpuemu.report import repetition, terminal

    lines = repetition.repetition_lines(
        result.run, result.recorded, result.repeated, result.source_changed, device, quiet
    )
    terminal.print_lines(lines, consoles.make_console())
    return code
