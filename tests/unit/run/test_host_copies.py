"""Inputs of a device as the judge lays them out for a worker: alike in memory, and fetched once."""

from __future__ import annotations

import pytest
import torch

from gpuemu.run import host_copies
from gpuemu.run.guards import red_zone
from gpuemu.run.host_copies import HostCopies

ROOM = torch.arange(48.0)


@pytest.mark.parametrize(
    "tensor",
    [ROOM.view(6, 8), ROOM.view(6, 8).t(), ROOM.view(6, 8)[:, ::2], ROOM[5:9], ROOM[:1].expand(6, 8), ROOM[:0]],
    ids=["contiguous", "transposed", "strided", "offset", "expanded", "empty"],
)
def test_a_copy_lies_in_memory_as_its_original_does(tensor: torch.Tensor) -> None:
    copy = host_copies._fetch(tensor)
    assert torch.equal(copy, tensor)
    assert red_zone.plan_arena({"x": copy}) == red_zone.plan_arena({"x": tensor})


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """The tensors that are fetched; those of the device "meta" stand for a GPU's."""
    fetched: list[torch.Tensor] = []

    def fetch(tensor: torch.Tensor) -> torch.Tensor:
        fetched.append(tensor)
        return torch.zeros(tensor.shape)

    monkeypatch.setattr(host_copies, "_fetch", fetch)
    return fetched


def test_the_same_inputs_are_fetched_once(fetched: list[torch.Tensor]) -> None:
    copies, x, y = HostCopies(), torch.empty(3, device="meta"), torch.empty(3, device="meta")
    assert copies.of({"x": x, "y": y}) is copies.of({"x": x, "y": y})
    assert len(fetched) == 2


def test_other_inputs_are_fetched_anew(fetched: list[torch.Tensor]) -> None:
    copies, x, y = HostCopies(), torch.empty(3, device="meta"), torch.empty(3, device="meta")
    for inputs in ({"x": x}, {"x": y}, {"y": y}, {"x": x, "y": y}):
        assert copies.of(inputs).keys() == inputs.keys()
    assert [id(tensor) for tensor in fetched] == [id(tensor) for tensor in (x, y, y, x, y)]


def test_inputs_that_were_written_to_are_fetched_anew(fetched: list[torch.Tensor]) -> None:
    copies, x = HostCopies(), torch.empty(3, device="meta")
    copies.of({"x": x})
    x.add_(1)
    copies.of({"x": x})
    assert len(fetched) == 2


def test_inputs_on_the_cpu_are_not_copied() -> None:
    inputs = {"x": ROOM}
    assert HostCopies().of(inputs) is inputs
