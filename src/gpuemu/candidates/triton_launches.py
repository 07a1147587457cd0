"""Counts the launches of compiled Triton kernels during one call of a candidate, and can suppress them.

Apart from `triton_watch`, which needs the interpreter: that must not be imported where kernels are compiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from triton.compiler.compiler import CompiledKernel
from triton.runtime.jit import JITFunction

from gpuemu.candidates.replaced import ReplacedAttributes
from gpuemu.model.observation import GuardFinding


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
    autotuner is one. An autotuner that first sees its key while launches are suppressed times nothing and keeps
    an arbitrary configuration.
    """
    current = Launches()
    run, get_item = JITFunction.run, CompiledKernel.__getitem__

    def counting_run(self: Any, *args: Any, warmup: bool = False, **kwargs: Any) -> Any:
        if not warmup:
            current.launches += 1
            if not launching:
                return None
        return run(self, *args, warmup=warmup, **kwargs)

    def counting_get_item(self: Any, grid: Any) -> Any:
        def launch(*args: Any, **kwargs: Any) -> Any:
            current.launches += 1
            return get_item(self, grid)(*args, **kwargs) if launching else None

        return launch

    replaced = ReplacedAttributes()
    replaced.replace(JITFunction, "run", counting_run)
    replaced.replace(CompiledKernel, "__getitem__", counting_get_item)
    try:
        yield current
    finally:
        replaced.restore()
