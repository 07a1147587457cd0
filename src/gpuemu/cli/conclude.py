"""How a command that could not finish says so: one line on stderr, a document with --json, an exit code."""

from __future__ import annotations

import traceback
from typing import Any

import click

from gpuemu.errors import EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_USAGE, GpuemuError

REPORT_LINE = "this is a bug in gpuemu: please report it with the traceback above"


def conclude(error: BaseException, as_json: bool) -> int:
    """Report what ended a command and return its exit code; our own bugs show their traceback."""
    if isinstance(error, KeyboardInterrupt):
        kind, message, code = "Interrupted", str(error) or "nothing was lost", EXIT_INTERRUPTED
        _echo(f"gpuemu: interrupted: {message}")
    elif isinstance(error, GpuemuError | click.ClickException):
        kind, message, code = type(error).__name__, _one_line(error), _code(error)
        _echo(f"gpuemu: error: {message}")
    else:
        kind, message, code = type(error).__name__, str(error), EXIT_INTERNAL
        for line in "".join(traceback.format_exception(error)).rstrip("\n").split("\n"):
            _echo(line)
        _echo(f"gpuemu: error: {REPORT_LINE}")
    if as_json:
        print_json({"error": {"type": kind, "message": message}, "exit_code": code})
    return code


def print_json(document: dict[str, Any]) -> None:
    """Write one JSON document to stdout."""
    from gpuemu.report.json_text import dump

    click.echo(dump(document))


def _echo(line: str) -> None:
    """Write a line to stderr; a message may quote a candidate's text, which must not command the terminal."""
    from gpuemu.report.text import clean

    click.echo(clean(line), err=True)


def _code(error: GpuemuError | click.ClickException) -> int:
    return error.exit_code if isinstance(error, GpuemuError) else EXIT_USAGE


def _one_line(error: GpuemuError | click.ClickException) -> str:
    """The message without line breaks; a mistake in the arguments says where help is."""
    message = error.format_message() if isinstance(error, click.ClickException) else str(error)
    message = " ".join(message.split())
    context = getattr(error, "ctx", None)
    if isinstance(error, click.UsageError) and context is not None:
        message = f"{message.rstrip('.')}; see `{context.command_path} --help`"
    return message
