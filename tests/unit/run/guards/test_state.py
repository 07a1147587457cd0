"""Global state: each change is named, and what matters is put back."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from gpuemu.run.guards import state


def patch_torch() -> None:
    torch.allclose = lambda *_, **__: True


CHANGES: list[tuple[Callable[[], object], str]] = [
    (lambda: torch.set_default_dtype(torch.float64), "default dtype from torch.float32 to torch.float64"),
    (lambda: torch.set_grad_enabled(False), "grad mode"),
    (lambda: torch.set_float32_matmul_precision("high"), "float32 matmul precision from highest to high"),
    (lambda: torch.use_deterministic_algorithms(True), "deterministic algorithms"),
    (lambda: torch.set_num_threads(torch.get_num_threads() + 1), "threads of torch"),
    (lambda: torch.set_flush_denormal(True), "floating-point subnormals"),
    (lambda: torch.manual_seed(3), "torch's random state"),
    (lambda: np.random.seed(3), "NumPy's random state"),
    (lambda: random.seed(3), "Python's random state"),
    (lambda: os.chdir("/"), "working directory"),
    (lambda: os.environ.update(HACKED="1"), "environment (HACKED)"),
    (lambda: signal.signal(signal.SIGALRM, signal.SIG_IGN), "handler of SIGALRM"),
    (patch_torch, "torch.allclose"),
]


@pytest.fixture(autouse=True)
def _put_back(monkeypatch: pytest.MonkeyPatch) -> object:
    here, handler, allclose = Path.cwd(), signal.getsignal(signal.SIGALRM), torch.allclose
    before = state.take()
    yield
    state.restore(before)
    os.chdir(here)
    os.environ.pop("HACKED", None)
    signal.signal(signal.SIGALRM, handler)
    torch.allclose = allclose
    torch.set_grad_enabled(True)


@pytest.mark.parametrize(("change", "says"), CHANGES)
def test_a_change_is_named(change: Callable[[], object], says: str) -> None:
    before = state.take()
    change()
    finding = state.compare(before, state.take())
    assert finding is not None
    assert finding.message.startswith(f"changed the {says}")


def test_no_change_is_no_finding() -> None:
    before = state.take()
    torch.softmax(torch.ones(4, 4), -1)
    assert state.compare(before, state.take()) is None


def test_what_torch_compile_does_at_its_first_call_is_no_change() -> None:
    x = torch.randn(33)
    before = state.take()
    torch.compile(lambda x: torch.nn.functional.gelu(x) * 2.0)(x)
    assert state.compare(before, state.take()) is None


def test_an_op_that_may_draw_is_not_blamed_for_it() -> None:
    before = state.take(with_random=False)
    torch.rand(3)
    assert state.compare(before, state.take(with_random=False)) is None


def test_a_thread_left_running_is_named() -> None:
    before, end = state.take(), threading.Event()
    threading.Thread(target=end.wait, name="sleeper").start()
    finding = state.compare(before, state.take())
    end.set()
    assert finding is not None
    assert finding.message == "left 1 threads running (sleeper)"


@pytest.mark.parametrize("module", ["tqdm._monitor", "torch._inductor.compile_worker.timer"])
def test_a_thread_that_a_tool_keeps_is_none_of_the_call(module: str) -> None:
    class Monitor(threading.Thread):
        def run(self) -> None:
            end.wait()

    Monitor.__module__ = module
    before, end = state.take(), threading.Event()
    Monitor().start()
    finding = state.compare(before, state.take())
    end.set()
    assert finding is None


def test_what_decides_how_later_calls_compute_is_put_back() -> None:
    before = state.take()
    torch.set_default_dtype(torch.float64)
    torch.set_flush_denormal(True)
    os.chdir("/")
    state.restore(before)
    assert state.compare(before, state.take()) is None
