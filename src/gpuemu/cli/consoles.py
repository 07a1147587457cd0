"""Where output goes: results to stdout, progress and notes to stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

from gpuemu import environment

if TYPE_CHECKING:
    from rich.console import Console

Advance = Callable[[int, int, str], None]


def make_console(to_stderr: bool = False) -> Console:
    """A console that prints text as it is: no markup, no emoji codes, no highlighting of numbers."""
    from rich.console import Console

    return Console(file=sys.stderr if to_stderr else sys.stdout, markup=False, emoji=False, highlight=False)


@contextmanager
def working(title: str, quiet: bool) -> Iterator[Advance]:
    """A scope for work whose own prints must not reach stdout, with a progress bar on a terminal's stderr.

    Yields a function to call with (done, total, remark).
    """
    if quiet or environment.is_ci() or not sys.stderr.isatty():
        with redirect_stdout(sys.stderr):
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
        redirect_stdout(sys.stderr),
        progress.Progress(*columns, console=console, transient=True, auto_refresh=False) as bar,
    ):
        task = bar.add_task(title, total=None, remark="")

        def advance(done: int, total: int, remark: str) -> None:
            bar.update(task, completed=done, total=total, remark=remark, refresh=True)

        yield advance
