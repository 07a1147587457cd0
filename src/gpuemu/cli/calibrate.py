"""`gpuemu calibrate`: measure what known-correct kernels score on this device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gpuemu.cli import consoles, options
from gpuemu.cli.conclude import print_json
from gpuemu.errors import EXIT_PASSED, UsageError

DEFAULT_SEED = 1  # the study "controls" takes 0, so that it calibrated nothing


@click.command("calibrate")
@options.device_option
@options.seed_option
@click.option("--op", "ops", multiple=True, metavar="OP", help="Only this op; may be repeated (default: all).")
@click.option(
    "--rounds", type=click.IntRange(1), metavar="N", help="Rounds of 4 cases per (op, dtype, values)."
)
@click.option("--journal", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Keep finished rows here and go on from them.")  # fmt: skip
@click.option("--minutes", type=click.FloatRange(0, min_open=True), metavar="N",
              help="Begin no row after this time.")  # fmt: skip
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Where the file goes (default calibration/DEVICE.toml).")  # fmt: skip
@options.output_options
def command(
    device: str | None,
    seed: int | None,
    ops: tuple[str, ...],
    rounds: int | None,
    output: Path | None,
    as_json: bool,
    quiet: bool,
    **limits: Any,
) -> int:
    """Score known-correct kernels (several implementations, orders, block sizes) and write a calibration file.

    `gpuemu check --calibration FILE`, or calibration = "FILE" in the configuration, then widens bounds where a
    control came near them (never below the rule's own constant) and reports kernels whose errors drift.
    """
    from gpuemu import calibrating

    device, seed = device or "cpu", DEFAULT_SEED if seed is None else seed
    said = "".join(f" --op {name}" for name in ops) + (f" --rounds {rounds}" if rounds else "")
    with consoles.working("calibrating", quiet) as advance:
        calibration = calibrating.calibrate(
            device=device,
            seed=seed,
            rounds=rounds,
            ops=ops or None,
            progress=lambda part, done, total: advance(done, total, part),
            **limits,
            command=f"gpuemu calibrate --device {device} --seed {seed}{said}",
        )
    path = output or Path("calibration") / f"{calibration.device}.toml"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(calibration.to_toml(), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--output {path}: cannot be written: {error.strerror}") from error
    if as_json:
        print_json({**vars(calibration), "entries": [vars(e) for e in calibration.entries], "path": str(path)})
    else:
        from gpuemu.report.calibration import calibration_lines
        from gpuemu.report.terminal import print_lines

        print_lines(calibration_lines(calibration, quiet), consoles.make_console())
    if not quiet:
        click.echo(f"written: {path}", err=True)
    return EXIT_PASSED
