"""The command line `gpuemu`: finds the verb and ends with the right exit code.

A verb's module is imported only when it is invoked or its own help is asked for: `gpuemu --help` reads the
table below and nothing else.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from gpuemu import __version__, environment
from gpuemu.cli.conclude import conclude
from gpuemu.errors import EXIT_INTERNAL, EXIT_PASSED, EXIT_USAGE

# Verb to its one-line summary; the module gpuemu.cli.VERB holds its `command`.
VERBS = {
    "check": "Check a kernel: find inputs on which it is wrong.",
    "replay": "Repeat a recorded case: same input bytes, same verdict?",
    "runs": "List the recorded runs, or show the cases of one.",
    "sanitize": "Run NVIDIA's compute-sanitizer on a recorded case.",
    "ops": "List the built-in ops, or show one; --corpus lists the kernels.",
    "calibrate": "Measure what known-correct kernels score on this device.",
    "study": "Run a study and show its figures.",
    "doctor": "Say what is installed and which tiers work.",
}
EPILOG = "Start with `gpuemu check softmax_triton_buggy`, then `gpuemu check your_file.py::kernel --op NAME`."


class VerbGroup(click.Group):
    """A group that imports a verb when it is used and turns every ending into an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        command = import_module(f"gpuemu.cli.{cmd_name}").command
        assert isinstance(command, click.Command)  # noqa: S101 - a verb module without one is our bug
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in VERBS:
            raise click.UsageError(_unknown_verb(args[0]), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))

    def main(self, args: Sequence[str] | None = None, *_: Any, **__: Any) -> NoReturn:
        sys.exit(self.run(list(sys.argv[1:] if args is None else args)))

    def run(self, arguments: list[str]) -> int:
        """Carry out a command line; never raises."""
        environment.shorten_waits()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # text that the terminal's encoding lacks must not stop us
                stream.reconfigure(errors="backslashreplace")
        try:
            code = self._run(arguments)
            sys.stdout.flush()
        except BrokenPipeError:  # the reader of our output went away: nobody is left to tell
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return EXIT_INTERNAL
        return code

    def _run(self, arguments: list[str]) -> int:
        if not arguments:
            self._run(["--help"])
            return EXIT_USAGE
        try:
            with self.make_context("gpuemu", list(arguments)) as context:
                result = self.invoke(context)
        except click.exceptions.Exit as ending:  # --help and --version
            return ending.exit_code
        except BrokenPipeError:
            raise
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            return conclude(error, as_json="--json" in arguments)
        return result if isinstance(result, int) else EXIT_PASSED


def _unknown_verb(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, VERBS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"verbs are {', '.join(VERBS)}"
    return f"no verb {name!r}; {hint}"


@click.group(
    cls=VerbGroup,
    epilog=EPILOG,
    subcommand_metavar="VERB ...",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="gpuemu", message="%(prog)s %(version)s")
def main() -> None:
    """Find GPU kernels that are silently wrong, with or without a GPU."""
