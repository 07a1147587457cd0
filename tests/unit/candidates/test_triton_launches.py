"""Launches, interpreted and compiled: counted, and suppressed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import triton
import watched_kernels as kernels
from triton.compiler.compiler import CompiledKernel
from triton.runtime.errors import InterpreterError
from triton.runtime.jit import JITFunction

from gpuemu.candidates import triton_builder, triton_launches, triton_watch

pytestmark = pytest.mark.usefixtures("interpreted")


def test_launches_are_counted() -> None:
    x, y = torch.arange(4.0), torch.zeros(4)
    with triton_watch.watch("nan") as outer:
        kernels.full_block[(1,)](x, y, BLOCK=4)
        with triton_watch.watch("nan") as inner:
            pass
        kernels.full_block.warmup(x, y, BLOCK=4, grid=(1,))
    assert (outer.launches, inner.launches) == (1, 0) and torch.equal(x, y)
    kernels.full_block[(1,)](x, y, BLOCK=4)
    assert outer.launches == 1
    with triton_watch.watch("nan") as watch:
        kernels.undefined_sum[(1,)](x, y, 4, BLOCK=4)  # calls a device function
        kernels.full_block.run(x, y, grid=(1,), warmup=False, BLOCK=4)
    assert watch.launches == 2


def test_suppressed_launches_do_nothing() -> None:
    x, y = torch.arange(4.0), torch.zeros(4)
    for suppressing in (triton_launches.without_launches(), triton_watch.watch("nan", launching=False)):
        with suppressing as count:
            kernels.full_block[(1,)](x, y, BLOCK=4)
            kernels.full_block[(1,)](x, y, BLOCK=4)
        assert count.launches == 2 and y.tolist() == [0] * 4
    kernels.full_block[(1,)](x, y, BLOCK=4)
    assert count.launches == 2 and torch.equal(x, y)


def test_autotuned_and_heuristic_kernels_are_launches() -> None:
    configs = [triton.Config({"BLOCK": 4}), triton.Config({"BLOCK": 2})]
    tuned = triton.autotune(configs, key=[], reset_to_zero=["y"])(kernels.full_block)
    guessed = triton.heuristics({"BLOCK": lambda _: 4})(kernels.full_block)
    both = triton.heuristics({"unused": lambda _: 4})(tuned)
    x, y = torch.ones(4), torch.full((4,), 5.0)
    with triton_launches.without_launches() as count:
        for kernel in (tuned, guessed, both):
            kernel[(1,)](x, y)
    assert count.launches == 3 and y.tolist() == [5] * 4
    for kernel in (tuned, guessed):
        y.zero_()
        with triton_watch.watch("nan") as watch:
            kernel[(1,)](x, y)
        assert watch.launches == 1 and torch.equal(x, y)


def test_nothing_is_left_behind() -> None:
    with pytest.raises(InterpreterError), triton_watch.watch("nan"):
        kernels.pair[(1,)]((torch.zeros(4),), BLOCK=4)
    assert triton_builder.BUILDER.guard is None
    with pytest.raises(ValueError, match="pattern must be one of nan, large, zero"), triton_watch.watch("ones"):
        pass


class FakeRuns:
    """Stands in for the launch of a compiled kernel."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[tuple[object, ...]] = []
        monkeypatch.setattr(JITFunction, "run", lambda _, *args, **options: self.run(*args, **options))
        monkeypatch.setattr(CompiledKernel, "__getitem__", lambda _, grid: self.get_item(grid))
        monkeypatch.delattr(CompiledKernel, "__del__")

    def run(self, *args: object, grid: object, warmup: bool, **_options: object) -> str:
        self.made.append((*args, grid, warmup))
        return "compiled"

    def get_item(self, grid: object) -> Callable[..., None]:
        return lambda *args: self.made.append((*args, grid))


def test_compiled_launches_are_counted_and_suppressed(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain() -> None: ...

    runs = FakeRuns(monkeypatch)
    before = JITFunction.run, CompiledKernel.__getitem__
    kernel, compiled = JITFunction(plain), object.__new__(CompiledKernel)
    guessed = triton.heuristics({"BLOCK": lambda _: 4})(kernel)
    with triton_launches.watch_compiled() as count:
        assert kernel[(1,)](5) == "compiled"
        guessed[(2,)](6)
        kernel.run(7, grid=(3,), warmup=True)
        compiled[(4,)](8)
    assert count.launches == 3
    assert [made[0] for made in runs.made] == [5, 6, 7, 8]
    for suppressing in (triton_launches.without_launches(), triton_launches.watch_compiled(launching=False)):
        runs.made.clear()
        with suppressing as count:
            assert kernel[(1,)](5) is None
            guessed[(2,)](6)
            kernel.run(7, grid=(3,), warmup=True)
            compiled[(4,)](8)
        assert count.launches == 3 and [made[0] for made in runs.made] == [7]
    assert (JITFunction.run, CompiledKernel.__getitem__) == before


def test_a_suppressed_autotuner_times_nothing(monkeypatch: pytest.MonkeyPatch, bare: None) -> None:
    def plain(x: object, BLOCK: object) -> None: ...

    runs = FakeRuns(monkeypatch)
    timed: list[object] = []
    configs = [triton.Config({"BLOCK": 4}), triton.Config({"BLOCK": 2})]
    tuner = triton.autotune(configs, key=["x"], do_bench=lambda *_, **__: timed.append(1) or [1.0])(
        JITFunction(plain)
    )
    with triton_launches.without_launches() as count:
        tuner[(1,)](5)
    assert (count.launches, runs.made, timed, tuner.cache) == (1, [], [], {})
    with triton_launches.watch_compiled() as count:
        assert tuner[(1,)](5) == "compiled"
    assert count.launches == 1 and len(timed) == 2  # the fake timer runs no kernel
