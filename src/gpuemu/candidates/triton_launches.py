"""Counts the launches of Triton kernels during one call of a candidate, and can suppress them.

Apart from `triton_watch`, which needs the interpreter: that must not be imported where kernels are compiled.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from triton.compiler.compiler import CompiledKernel
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import JITFunction

from gpuemu.candidates.replaced import ReplacedAttributes
from gpuemu.model.observation import GuardFinding

_Launcher = Callable[..., Any]


class Count(Protocol):
    """What is told of each launch."""

    launches: int


@dataclass
class Launches:
    """What a call's launches did: how many there were. Memory is not watched on a device."""

    launches: int = 0
    findings: list[GuardFinding] = field(default_factory=list)
    unfilled_loads: list[str] = field(default_factory=list)


@contextmanager
def watch_compiled(launching: bool = True) -> Iterator[Launches]:
    """Count the compiled launches made within the block; suppress them if `launching` is False.

    Covers `kernel[grid](...)`, autotuners and heuristics, which end in `JITFunction.run`, and launches of what
    `kernel.warmup(...)` returns; not what torch.compile generates. A warm-up is no launch, a timing run of an
    autotuner is one.
    """
    current = Launches()
    with _intercepting((JITFunction,), current, launching=True) if launching else suppressing(current):
        yield current


@contextmanager
def without_launches() -> Iterator[Launches]:
    """Within the block `kernel[grid]()` does nothing, compiled or interpreted; launches left out are counted.

    Covers what `watch_compiled` covers. An autotuner or heuristics does nothing either, so that no
    configuration is timed, remembered, or lets its hook touch a tensor; each of their launches counts as one.
    """
    current = Launches()
    with suppressing(current):
        yield current


def suppressing(count: Count) -> AbstractContextManager[None]:
    """`without_launches`, counted there."""
    kinds: list[Any] = [Autotuner, Heuristics, JITFunction]
    interpreter = sys.modules.get("triton.runtime.interpreter")
    if interpreter is not None:
        kinds.append(interpreter.InterpretedFunction)
    return _intercepting(kinds, count, launching=False)


@contextmanager
def _intercepting(kinds: Sequence[Any], count: Count, launching: bool) -> Iterator[None]:
    replaced = ReplacedAttributes()
    try:
        for kind in kinds:
            replaced.replace(kind, "run", _unless_warmup(kind.run, count, launching))
        get_item = _by_grid(CompiledKernel.__getitem__, count, launching)
        replaced.replace(CompiledKernel, "__getitem__", get_item)
        yield
    finally:
        replaced.restore()


def _unless_warmup(run: _Launcher, count: Count, launching: bool) -> _Launcher:
    """`run` of a kernel, an autotuner or heuristics; a warm-up compiles and is no launch."""

    def counting_run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not kwargs.get("warmup", False):
            count.launches += 1
            if not launching:
                return None
        return run(self, *args, **kwargs)

    return counting_run


def _by_grid(get_item: _Launcher, count: Count, launching: bool) -> _Launcher:
    """`CompiledKernel.__getitem__`: launches what `kernel.warmup(...)` returned."""

    def counting_get_item(self: Any, grid: Any) -> _Launcher:
        def launch(*args: Any, **kwargs: Any) -> Any:
            count.launches += 1
            return get_item(self, grid)(*args, **kwargs) if launching else None

        return launch

    return counting_get_item
