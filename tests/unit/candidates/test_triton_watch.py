"""Memory outside a kernel's tensors, masked lanes without a fill, launches: seen in the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

triton = pytest.importorskip("triton")

from gpuemu.candidates import loader, triton_watch  # noqa: E402
from gpuemu.candidates.triton_watch import watch, watch_compiled  # noqa: E402

KERNELS = """
import torch
import triton
import triton.language as tl

@triton.jit
def _copy(x, y, n, shift, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i + shift)
    tl.store(y + i, v, mask=i < n)

@triton.jit
def _spill(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(y + i, v)

@triton.jit
def _sum(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(y, tl.sum(v, 0))

@triton.jit
def _gather(x, index, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    place = tl.load(index + i, mask=i < n)
    v = tl.load(x + place, mask=i < n)
    tl.store(y + i, v, mask=i < n)

@triton.jit
def _count(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.atomic_add(y + i, 1.0)

def copy(x, shift=0):
    y = torch.zeros_like(x); _copy[(1,)](x, y, x.numel(), shift, B=8); return y
def spill(x):
    y = torch.zeros_like(x); _spill[(1,)](x, y, x.numel(), B=8); return y
def total(x):
    y = torch.zeros(1); _sum[(1,)](x, y, x.numel(), B=8); return y
def gather(x, index):
    y = torch.zeros(len(index)); _gather[(1,)](x, index, y, len(index), B=8); return y
def count(x):
    y = torch.zeros(5); _count[(1,)](x, y, 5, B=8); return y
"""


def line_of(text: str) -> int:
    return KERNELS.split("\n").index(text) + 1


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("watched") / "planted.py"
    path.write_text(KERNELS)
    return lambda name: loader.load(f"{path}::{name}", "cpu").call


Find = Callable[[str], Callable[..., torch.Tensor]]


def test_reads_past_the_end_are_placed_and_give_poison(kernels: Find) -> None:
    x = torch.arange(5.0)
    with watch("nan") as seen:
        y = kernels("copy")(x, 1)
    line = line_of("    v = tl.load(x + i + shift)")
    assert [f.message for f in seen.findings] == [
        f"planted.py:{line} reads 4 lanes out of range, the first 1 past the end of x"
    ]
    assert y[:4].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert bool(y[4].isnan())
    with watch("large"):
        assert kernels("copy")(x, 1)[4] == np.float32(1e30)


def test_reads_before_the_start_are_placed(kernels: Find) -> None:
    with watch("nan") as seen:
        kernels("copy")(torch.arange(8.0), -2)
    assert "reads 2 lanes out of range, the first 2 before the start of x" in seen.findings[0].message


def test_writes_past_the_end_are_placed_and_left_out(kernels: Find) -> None:
    around = torch.zeros(16)
    x = torch.ones(5)
    with watch("nan") as seen:
        y = kernels("spill")(x)
    line = line_of("    tl.store(y + i, v)")
    assert f"planted.py:{line} writes 3 lanes out of range, the first 1 past the end of y" in (
        seen.findings[0].message
    )
    assert y.tolist() == [1.0] * 5
    assert around.tolist() == [0.0] * 16


def test_updates_past_the_end_are_left_out(kernels: Find) -> None:
    with watch("nan") as seen:
        y = kernels("count")(torch.ones(5))
    assert y.tolist() == [1.0] * 5
    assert "updates 3 lanes out of range" in seen.findings[0].message


def test_a_sum_over_masked_lanes_shows_what_they_hold(kernels: Find) -> None:
    x = torch.ones(5)
    assert kernels("total")(x).tolist() == [5.0]
    with watch("nan") as seen:
        assert bool(kernels("total")(x).isnan())
    assert seen.unfilled_loads == [f"planted.py:{line_of('    v = tl.load(x + i, mask=i < n)')}"]
    assert not seen.findings
    with watch("nan", is_checking=False):
        assert kernels("total")(x).tolist() == [5.0]


def test_masked_indices_that_feed_masked_loads_are_right(kernels: Find) -> None:
    x, index = torch.arange(10.0), torch.tensor([3, 9, 0])
    for pattern in ("nan", "large"):
        with watch(pattern) as seen:
            assert kernels("gather")(x, index).tolist() == [3.0, 9.0, 0.0]
        assert not seen.findings


def test_an_index_out_of_range_is_told_from_the_masked_ones(kernels: Find) -> None:
    with watch("nan") as seen:
        kernels("gather")(torch.arange(10.0), torch.tensor([3, 12, 0]))
    assert "reads 1 lane out of range, the first 3 past the end of x" in seen.findings[0].message


def test_launches_are_counted_and_left_out(kernels: Find) -> None:
    x = torch.arange(8.0)
    with watch("nan") as seen:
        kernels("copy")(x)
        kernels("copy")(x)
    assert seen.launches == 2
    with watch("nan", launching=False) as idle:
        assert kernels("copy")(x).tolist() == [0.0] * 8
    assert idle.launches == 1
    assert triton_watch.current is None


def test_compiled_launches_are_counted_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.runtime.jit import JITFunction

    ran: list[int] = []
    monkeypatch.setattr(JITFunction, "run", lambda self, *arguments, **options: ran.append(1))
    kernel = JITFunction.__new__(JITFunction)
    with watch_compiled() as seen:
        kernel.run(grid=(1,), warmup=False)
        kernel.run(grid=(1,), warmup=True)
    assert (seen.launches, len(ran)) == (1, 2)
    with watch_compiled(launching=False) as idle:
        kernel.run(grid=(1,), warmup=False)
    assert (idle.launches, len(ran)) == (1, 2)
    kernel.run(grid=(1,), warmup=False)
    assert len(ran) == 3
