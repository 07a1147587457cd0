"""`gpuemu check TARGET`: the main job."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuemu.cli import consoles, options
from gpuemu.cli.conclude import print_json
from gpuemu.cli.exit_codes import SUMMARY, exit_code, failing_flags
from gpuemu.config import Configuration, load_configuration
from gpuemu.errors import GpuemuError
from gpuemu.model.observation import REPEATS
from gpuemu.model.op import LAYOUTS
from gpuemu.model.record import INLINE, WORKER
from gpuemu.model.value_class import DENSE_VALUE_CLASSES, VALUE_CLASSES
from gpuemu.model.verdict import Flag, Status
from gpuemu.run.guards import GUARDS

if TYPE_CHECKING:
    from gpuemu.model.record import Record, Report

DEFAULT_BUDGET = 64
DEFAULT_STRATEGY = "covering"
DEFAULT_TIMEOUT_S = 60.0
# What a message calls an option's value, and the option.
_CONFIGURED = {
    "dtype": "dtypes",
    "layout": "layouts",
    "value class": "values",
    "device": "device",
    "profile": "profile",
    "strategy": "strategy",
}


@click.command("check", epilog=f"Exit codes: {SUMMARY}.")
@click.argument("target", required=False)
@click.option("--resume", metavar="RUN", help='Finish this run ("latest", say) instead of starting one.')
@click.option("--op", metavar="OP", help="A built-in op's name, or file.py::op for your own.")
@click.option("--backward", is_flag=True,
              help="Check the gradients that TARGET's own backward pass gives.")  # fmt: skip
@click.option(
    "--budget", type=click.IntRange(1), metavar="N", help=f"Number of cases (default {DEFAULT_BUDGET})."
)
@options.seed_option
@options.device_option
@click.option("--dtype", "dtypes", multiple=True, callback=options.parse_names, metavar="DTYPE",
              help="Only this dtype (float32, float16, bfloat16); may be repeated.")  # fmt: skip
@click.option("--layouts", callback=options.parse_layouts, metavar="LIST",
              help=f"all, or names from {', '.join(LAYOUTS)}, separated by commas.")  # fmt: skip
@click.option("--values", multiple=True, callback=options.parse_names, metavar="LIST",
              help=f"Only these value classes, from {', '.join(VALUE_CLASSES)}. Of the dense ones "
                   f"({', '.join(DENSE_VALUE_CLASSES)}) a case has one input.")  # fmt: skip
@click.option("--profile", metavar="P",
              help="Judge under this profile: P0, P1, PF, PT, P8 or P2 (default: the op's).")  # fmt: skip
@click.option("--rigorous/--no-rigorous", default=None,
              help="Judge by bounds that no sequence of roundings exceeds.")  # fmt: skip
@click.option("--strategy", metavar="NAME", help=f"How cases are planned (default {DEFAULT_STRATEGY}).")
@click.option("--calibration", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="A file that `gpuemu calibrate` wrote: report errors that drift from it.")  # fmt: skip
@click.option("--audit", is_flag=True, help="Show what other projects' rules say of the same outputs.")
@click.option("--reference/--no-reference", default=True,
              help="Judge by metamorphic relations alone where float64 cannot be afforded.")  # fmt: skip
@click.option("--repeats", type=click.IntRange(1), default=REPEATS, show_default=True, metavar="N",
              help="Call the kernel N times on the inputs of each case; the calls must agree.")  # fmt: skip
@click.option("--runner", type=click.Choice([WORKER, INLINE]), metavar="R",
              help="worker (default): in a process that knows no answer; inline: in this one.")  # fmt: skip
@click.option("--timeout", "timeout_s", type=click.FloatRange(0, min_open=True), metavar="SECONDS",
              help="How long the worker may take over a call (default 60).")  # fmt: skip
@click.option("--no-guard", "without_guards", multiple=True, type=click.Choice(GUARDS), metavar="NAME",
              help=f"Leave a guard out: {', '.join(GUARDS)}; may be repeated.")  # fmt: skip
@click.option("--protect/--no-protect", default=True,
              help="Use what the system offers against hostile kernels (default).")  # fmt: skip
@click.option("--shrink/--no-shrink", default=True, help="Make the first failing case small (default).")
@click.option("--store/--no-store", default=True, help="Keep a record of every case (default).")
@click.option("--strict/--no-strict", default=None, help="Let suspicious and nan_semantics count as failures.")
@click.option("--verbose", "-v", is_flag=True, help="Also list every case, the contract and the environment.")
@options.output_options
def command(
    target: str | None,
    resume: str | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    strict: bool | None,
    **flags: Any,
) -> int:
    """Check the kernel TARGET against an op over many cases.

    TARGET is a corpus name (`gpuemu ops --corpus`), file.py::function or package.module:function.
    """
    configuration = load_configuration(Path.cwd())
    if (target is None) == (resume is None):
        raise click.UsageError("give a TARGET, or --resume RUN")
    if resume is not None:
        report = _resume(resume, configuration, flags, quiet=quiet)
    else:
        report = _check(str(target), configuration, flags, quiet=quiet)
    if not quiet:
        consoles.show_printed(report.printed)
    strict = bool(configuration.strict) if strict is None else strict
    code = exit_code(report, strict)
    if as_json:
        print_json({**report.to_json(), "exit_code": code})
    else:
        _show(report, quiet, verbose, flags["store"], failing_flags(report) if strict else ())
    return code


def _check(target: str, configuration: Configuration, flags: dict[str, Any], quiet: bool) -> Report:
    from gpuemu import checking

    store = configuration.store_path if flags["store"] else False
    with consoles.working("checking", quiet) as advance:
        follow = _Follow(advance)
        try:
            return checking.check(
                target,
                flags["op"],
                backward=flags["backward"],
                budget=_first(flags["budget"], configuration.budget, DEFAULT_BUDGET),
                seed=_first(flags["seed"], configuration.seed),
                device=_first(flags["device"], configuration.device, "cpu"),
                dtypes=_first(flags["dtypes"], configuration.dtypes),
                layouts=_first(flags["layouts"], configuration.layouts),
                value_classes=_first(flags["values"], configuration.values),
                profile=_first(flags["profile"], configuration.profile),
                rigorous=bool(_first(flags["rigorous"], configuration.rigorous)),
                strategy=_first(flags["strategy"], configuration.strategy, DEFAULT_STRATEGY),
                calibration=_first(flags["calibration"], configuration.calibration),
                reference=flags["reference"],
                audit=flags["audit"],
                repeats=flags["repeats"],
                runner=_first(flags["runner"], configuration.runner),
                timeout_s=_first(flags["timeout_s"], configuration.timeout_s, DEFAULT_TIMEOUT_S),
                without_guards=flags["without_guards"],
                protect=flags["protect"],
                store=store,
                shrink=flags["shrink"],
                progress=follow,
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(follow.describe(store)) from None
        except GpuemuError as error:
            if _is_configured(error, configuration, flags):
                raise type(error)(f"{configuration.source}: {error}") from error
            raise


def _resume(run: str, configuration: Configuration, flags: dict[str, Any], quiet: bool) -> Report:
    from gpuemu.resuming import resume

    folder = configuration.store_path
    with consoles.working("resuming", quiet) as advance:
        follow = _Follow(advance)
        try:
            return resume(run, store=folder, shrink=flags["shrink"], protect=flags["protect"], progress=follow)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(follow.describe(folder)) from None


def _is_configured(error: GpuemuError, configuration: Configuration, flags: dict[str, Any]) -> bool:
    """Whether an error is about a value of the configuration file.

    A message about an option's value starts with the option's word: "dtype int8: ...", "unknown strategy ...".
    """
    return any(
        flags[key] is None
        and getattr(configuration, key) is not None
        and re.match(rf"(unknown )?{word}\b", str(error))
        for word, key in _CONFIGURED.items()
    )


def _first(*values: Any) -> Any:
    """The first value that is set: flag, then configuration, then default."""
    return next((value for value in values if value is not None), None)


class _Follow:
    """Counts cases as they are judged, for the progress bar and for the line after an interrupt."""

    def __init__(self, advance: consoles.Advance) -> None:
        self._advance = advance
        self._done = self._total = self._failing = 0

    def __call__(self, done: int, total: int, record: Record) -> None:
        self._failing += record.verdict.status in (Status.FAIL, Status.ERROR)
        self._done, self._total = done, total
        self._advance(done, total, f"{self._failing} failing" if self._failing else "")

    def describe(self, store: Path | bool) -> str:
        if not self._done:
            return "no case was judged yet"
        kept = f"recorded in {store}" if store else "not kept (--no-store)"
        return f"{self._done} of {self._total} cases were judged, {self._failing} failing; they are {kept}"


def _show(report: Report, quiet: bool, verbose: bool, stored: bool, flags: tuple[Flag, ...]) -> None:
    from gpuemu.report import terminal

    if not quiet:
        terminal.render_notes(report, consoles.make_console(to_stderr=True))
    terminal.render_report(report, consoles.make_console(), verbose, quiet, stored, failing_flags=flags)
