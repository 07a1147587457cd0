"""Runs the grid of an interpreted Triton kernel, program after program, and counts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
import triton
from triton.runtime.errors import InterpreterError

from gpuemu.candidates import triton_language
from gpuemu.candidates.triton_arguments import Parameter, bind, convert, read_parameters
from gpuemu.candidates.triton_builder import BUILDER
from gpuemu.candidates.triton_guard import AccessLog, Region, guard_launch
from gpuemu.candidates.triton_source import rewrite
from gpuemu.errors import GpuemuError


@dataclass(frozen=True)
class Launch:
    """One launch: the kernel's name and its grid."""

    kernel: str
    grid: tuple[int, int, int]

    @property
    def programs(self) -> int:
        """Number of programs of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]


@dataclass
class ProgramCount:
    """Launches seen by `count_programs`, in order."""

    launches: list[Launch] = field(default_factory=list)

    @property
    def programs(self) -> int:
        """Programs of all launches together."""
        return sum(launch.programs for launch in self.launches)


_watchers: list[ProgramCount] = []
_programs = 0


def program_count() -> int:
    """Programs launched in this process since it started."""
    return _programs


@contextmanager
def count_programs() -> Iterator[ProgramCount]:
    """Collects the launches made within the block; may be nested."""
    count = ProgramCount()
    _watchers.append(count)
    try:
        yield count
    finally:
        _watchers[:] = [watcher for watcher in _watchers if watcher is not count]


class LaunchWatch(Protocol):
    """What watches launches (`triton_watch.Watch`)."""

    log: AccessLog
    launching: bool
    launches: int
    regions: Sequence[Region]


_watch: LaunchWatch | None = None


@contextmanager
def watched_by(watch: LaunchWatch) -> Iterator[None]:
    """Launches within the block are guarded and counted by `watch`, and by no other."""
    global _watch  # noqa: PLW0603
    before, _watch = _watch, watch
    try:
        yield
    finally:
        _watch = before


def _record(kernel: str, grid: tuple[int, int, int]) -> None:
    global _programs  # noqa: PLW0603
    launch = Launch(kernel, grid)
    _programs += launch.programs
    for watcher in _watchers:
        watcher.launches.append(launch)


def _parameters(kernel: Any) -> tuple[Parameter, ...]:
    known: tuple[Parameter, ...] | None = kernel.__dict__.get("__gpuemu_parameters__")
    if known is None:
        options = getattr(kernel, "kwargs", None)
        skipped = options.get("do_not_specialize") if options else getattr(kernel, "do_not_specialize", None)
        known = kernel.__dict__["__gpuemu_parameters__"] = read_parameters(kernel.fn, tuple(skipped or ()))
    return known


def _three(grid: Any) -> tuple[int, int, int]:
    sizes = [int(size) for size in ((grid,) if isinstance(grid, int) else grid)]
    if len(sizes) > 3:
        raise ValueError("grid must have at most 3 dimensions")
    sizes += [1] * (3 - len(sizes))
    return sizes[0], sizes[1], sizes[2]


def run_kernel(kernel: Any, grid: Any, hooks: Sequence[Callable[..., Any]], args: Any, kwargs: Any) -> None:
    """Launch `kernel` (JITFunction or InterpretedFunction) over `grid`, a tuple or function of the arguments.

    Raises:
        InterpreterError: a program raised; its exception is the cause.
    """
    watch = _watch
    if watch is not None:
        watch.launches += 1
        if not watch.launching:
            return
    for hook in hooks:
        hook(*args, **kwargs)
    bound = bind(kernel.fn, args, kwargs)
    sizes = _three(grid(bound) if callable(grid) else grid)
    _record(kernel.fn.__name__, sizes)
    with triton_language.active():
        triton_language.enter_globals(kernel.fn.__globals__)
        with torch._C.DisableTorchFunction():  # the truth about tensors, whatever `device_redirect` says
            values = {p.name: convert(p, bound[p.name]) for p in _parameters(kernel)}
            if watch is not None:
                BUILDER.guard = guard_launch(watch.log, kernel.fn.__name__, bound, values, watch.regions)
        BUILDER.set_grid_dim(*sizes)
        try:
            function = rewrite(kernel.fn)
            for x in range(sizes[0]):
                for y in range(sizes[1]):
                    for z in range(sizes[2]):
                        BUILDER.grid_idx = (x, y, z)
                        function(**values)
        except GpuemuError:
            raise
        except Exception as error:
            if triton.knobs.compilation.front_end_debugging:
                raise
            raise InterpreterError(repr(error)) from error
        finally:
            BUILDER.guard = None


def run_device_function(function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call a `@triton.jit` function from another one, or from host code."""
    if triton_language.is_active():
        return triton_language.call_device(function, args, kwargs)
    with triton_language.active():
        return triton_language.call_device(function, args, kwargs)
