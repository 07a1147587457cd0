"""`gpuemu doctor`: what is installed, which tiers work, and the mend of what does not."""

from __future__ import annotations

from pathlib import Path

import click

from gpuemu.cli import consoles, options
from gpuemu.cli.conclude import print_json
from gpuemu.errors import EXIT_INTERNAL, EXIT_PASSED

_MARKS = {"ok": ("ok", "green"), "absent": ("-", "dim"), "problem": ("PROBLEM", "bold red")}


@click.command("doctor", epilog="Exit codes: 0 the CPU tier works, 3 it does not.")
@options.output_options
def command(as_json: bool, quiet: bool) -> int:
    """Say what is installed and which tiers work, a line each; a problem's line ends with its mend.

    --quiet shows problems only.
    """
    from gpuemu.cli.diagnosis import diagnose

    with consoles.working("examining", quiet):
        diagnosis = diagnose(Path.cwd())
    code = EXIT_PASSED if diagnosis.cpu_tier_works else EXIT_INTERNAL
    if as_json:
        items = [dict(vars(item)) for item in diagnosis.items]
        print_json({"items": items, "cpu_tier_works": diagnosis.cpu_tier_works, "exit_code": code})
        return code
    from gpuemu.report.terminal import print_lines
    from gpuemu.report.text import make_line

    shown = [item for item in diagnosis.items if not quiet or item.state == "problem"]
    width = max((len(item.name) for item in shown), default=0)
    lines = []
    for item in shown:
        mark, style = _MARKS[item.state]
        mend = f"; mend: {item.mend}" if item.mend else ""
        lines.append(make_line((f"{mark:<7}", style), f"  {item.name:<{width}}  {item.detail}{mend}"))
    print_lines(lines, consoles.make_console())
    return code
