"""Watches the Triton launches of one call of a candidate: guards memory, counts launches, can suppress them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from triton.compiler.compiler import CompiledKernel
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

from gpuemu.candidates import triton_launch
from gpuemu.candidates.replaced import ReplacedAttributes
from gpuemu.candidates.triton_guard import AccessLog
from gpuemu.candidates.triton_known_memory import Region
from gpuemu.model.observation import GuardFinding


class Watch:
    """What a call's launches did.

    findings: reads, writes and updates beyond every tensor that a launch was given: a few, one a source line.
    unfilled_loads: lines ("softmax.py:24") of loads without `other` that had masked lanes, which were poisoned.
    launches: how many kernels were launched, suppressed ones included.
    """

    def __init__(self, pattern: str = "nan", regions: Sequence[Region] = ()) -> None:
        self.log = AccessLog(pattern)
        self.regions = regions
        self.launches = 0

    @property
    def findings(self) -> list[GuardFinding]:
        """A finding for each of the first lines that went out of range."""
        return self.log.findings

    @property
    def unfilled_loads(self) -> list[str]:
        """Lines of loads without `other` that had masked lanes, in the order in which they ran."""
        return self.log.unfilled_loads


@contextmanager
def watch(pattern: str, launching: bool = True, regions: Sequence[Region] = ()) -> Iterator[Watch]:
    """Guard and count the interpreted launches made within the block.

    An out-of-range read gives poison and an out-of-range write is left out; masked lanes of a load without
    `other` hold poison, since Triton leaves them undefined.

    Args:
        pattern: the poison: "nan", or "large": 1e30 (or the type's largest finite value); integers hold an odd
            pattern. Under "zero" masked lanes hold 0, as Triton 3.9 compiles them for NVIDIA (`mov 0` before
            the predicated load): what is wrong under poison and right under "zero" relies on that.
        launching: False suppresses the launches, as `without_launches` does.
        regions: address ranges [start, end) that hold one tensor each inside larger storages (red zones
            around it): a tensor that begins in one may be touched there only.
    """
    current = Watch(pattern, regions)
    with triton_launch.watched_by(current), nullcontext() if launching else _suppressing(current):
        yield current


@contextmanager
def watch_compiled(launching: bool = True) -> Iterator[Watch]:
    """Count the compiled launches made within the block; suppress them if `launching` is False.

    Covers `kernel[grid](...)`, autotuners and heuristics, which end in `JITFunction.run`, and launches of what
    `kernel.warmup(...)` returns; not what torch.compile generates. A warm-up is no launch, a timing run of an
    autotuner is one.
    """
    current = Watch()
    with _intercepting((JITFunction,), current, launching=True) if launching else _suppressing(current):
        yield current


@contextmanager
def without_launches() -> Iterator[Watch]:
    """Within the block `kernel[grid]()` does nothing, compiled or interpreted; launches left out are counted.

    Covers what `watch_compiled` covers. An autotuner or heuristics does nothing either, so that no
    configuration is timed, remembered, or lets its hook touch a tensor; each of their launches counts as one.
    """
    current = Watch()
    with _suppressing(current):
        yield current


_Launcher = Callable[..., Any]


def _suppressing(watch: Watch) -> AbstractContextManager[None]:
    kinds = (Autotuner, Heuristics, JITFunction, InterpretedFunction)
    return _intercepting(kinds, watch, launching=False)


@contextmanager
def _intercepting(kinds: Sequence[Any], watch: Watch, launching: bool) -> Iterator[None]:
    replaced = ReplacedAttributes()
    try:
        for kind in kinds:
            replaced.replace(kind, "run", _unless_warmup(kind.run, watch, launching))
        get_item = _by_grid(CompiledKernel.__getitem__, watch, launching)
        replaced.replace(CompiledKernel, "__getitem__", get_item)
        yield
    finally:
        replaced.restore()


def _unless_warmup(run: _Launcher, watch: Watch, launching: bool) -> _Launcher:
    """`run` of a kernel, an autotuner or heuristics; a warm-up compiles and is no launch."""

    def counting_run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not kwargs.get("warmup", False):
            watch.launches += 1
            if not launching:
                return None
        return run(self, *args, **kwargs)

    return counting_run


def _by_grid(get_item: _Launcher, watch: Watch, launching: bool) -> _Launcher:
    """`CompiledKernel.__getitem__`: launches what `kernel.warmup(...)` returned."""

    def counting_get_item(self: Any, grid: Any) -> _Launcher:
        def launch(*args: Any, **kwargs: Any) -> Any:
            watch.launches += 1
            return get_item(self, grid)(*args, **kwargs) if launching else None

        return launch

    return counting_get_item
