"""Where output goes: results to stdout, progress and notes to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TYPE_CHECKING

from gpuemu import environment

if TYPE_CHECKING:
    from rich.console import Console

Advance = Callable[[int, int, str], None]
STDOUT, STDERR = 1, 2  # descriptors


def make_console(to_stderr: bool = False) -> Console:
    """A console that prints text as it is: no markup, no emoji codes, no highlighting of numbers.

    Printing raises BrokenPipeError where the reader has gone away.
    """
    from rich import console

    class Console(console.Console):
        def on_broken_pipe(self) -> None:  # rich would raise SystemExit: endings are decided in app.py
            raise BrokenPipeError

    return Console(file=sys.stderr if to_stderr else sys.stdout, markup=False, emoji=False, highlight=False)


@contextmanager
def working(title: str, quiet: bool) -> Iterator[Advance]:
    """A scope for work whose own prints must not reach stdout, with a progress bar on a terminal's stderr.

    Yields a function to call with (done, total, remark).
    """
    if quiet or environment.is_ci() or not sys.stderr.isatty():
        with _stdout_diverted(), redirect_stdout(sys.stderr):
            yield lambda _done, _total, _remark: None
        return
    from rich import progress

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(bar_width=24),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("{task.fields[remark]}"),
    )
    console = make_console(to_stderr=True)
    with (
        _stdout_diverted(),
        redirect_stdout(sys.stderr),
        progress.Progress(*columns, console=console, transient=True, auto_refresh=False) as bar,
    ):
        task = bar.add_task(title, total=None, remark="")

        def advance(done: int, total: int, remark: str) -> None:
            bar.update(task, completed=done, total=total, remark=remark, refresh=True)

        yield advance


@contextmanager
def _stdout_diverted() -> Iterator[None]:
    """Let what is written to the descriptor of stdout, by `os.write` or a C library, go to stderr."""
    if not _is_open(STDOUT):  # closed by the caller (`>&-`): nothing to keep pure
        yield
        return
    _flush_buffers()
    # Before the copy of stdout, which would otherwise take the number of a closed stderr.
    sink = os.dup(STDERR) if _is_open(STDERR) else os.open(os.devnull, os.O_WRONLY)
    kept = os.dup(STDOUT)
    try:
        os.dup2(sink, STDOUT)
        yield
    finally:
        _flush_buffers()
        os.dup2(kept, STDOUT)
        os.close(kept)
        os.close(sink)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _flush_buffers() -> None:
    """Empty Python's and C's buffers of stdout; both hold text back where stdout is no terminal."""
    import ctypes

    for stream in (sys.stdout, sys.__stdout__):
        with suppress(OSError, ValueError):
            if stream is not None:
                stream.flush()
    with suppress(OSError, TypeError, AttributeError):  # no C library by this way: Windows
        ctypes.CDLL(None).fflush(None)


def show_printed(text: str) -> None:
    """What a kernel printed, on stderr: results alone go to stdout."""
    if text:
        sys.stderr.write(text if text.endswith("\n") else text + "\n")
