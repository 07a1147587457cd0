"""A worker on a CUDA device: its inputs lie as the case says, and what it writes to them shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from gpuemu.run.calling import Manner
from gpuemu.run.worker import Job, WorkerCaller

pytestmark = pytest.mark.gpu
KERNELS = """
import torch
def double(x): return x * 2
def strides(x): return torch.tensor(x.stride())
def writes(x): y = x.clone(); x.view(-1)[0] = 9.0; return y
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "kernels.py").write_text(KERNELS)
    return folder


@pytest.fixture(scope="module")
def caller() -> Iterator[WorkerCaller]:
    with WorkerCaller("cuda") as caller:
        yield caller


def make_layouts() -> list[torch.Tensor]:
    room = torch.arange(48.0, device="cuda")
    return [room.view(6, 8), room.view(6, 8).t(), room.view(6, 8)[:, ::2], room[5:9], room[:1].expand(6, 8)]


def test_values_and_strides_are_those_of_the_inputs(caller: WorkerCaller, folder: Path) -> None:
    for name in ("double", "strides"):
        caller.load(Job(f"{folder / 'kernels.py'}::{name}", "cuda"))
        for x in make_layouts():
            for pattern in ("nan", "large"):
                [output] = caller.call(caller.place({"x": x}, pattern), {}, Manner(pattern)).outputs
                assert output.tolist() == ((x * 2).tolist() if name == "double" else list(x.stride()))
                assert output.is_cuda == (name == "double")


def test_what_it_writes_to_an_input_shows_on_this_side(caller: WorkerCaller, folder: Path) -> None:
    caller.load(Job(f"{folder / 'kernels.py'}::writes", "cuda"))
    x = torch.ones(3, device="cuda")
    for _ in range(2):
        placed = caller.place({"x": x}, "nan")
        [output] = caller.call(placed, {}, Manner()).outputs
        assert output.tolist() == [1.0, 1.0, 1.0]
        assert placed.views["x"].tolist() == [9.0, 1.0, 1.0]
    assert x.tolist() == [1.0, 1.0, 1.0]
