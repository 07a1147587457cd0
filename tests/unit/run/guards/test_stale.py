"""Other values in the same memory."""

from __future__ import annotations

import pytest
import torch

from gpuemu.run.guards.stale import rewrite_one


@pytest.mark.parametrize(("turn", "place"), [(1, (3, 4)), (2, (1, 4))])
def test_one_element_takes_another_value(turn: int, place: tuple[int, int]) -> None:
    inputs, others = {"x": torch.zeros(4, 5)}, {"x": torch.ones(4, 5)}
    assert rewrite_one(inputs, others, turn)
    assert inputs["x"].nonzero().tolist() == [list(place)]


def test_nothing_changes_where_nothing_may() -> None:
    index, expanded = torch.tensor([1, 2]), torch.zeros(1).expand(3)
    inputs = {"index": index, "expanded": expanded, "empty": torch.empty(0)}
    others = {"index": torch.tensor([0, 0]), "expanded": torch.ones(3), "empty": torch.empty(0)}
    assert not rewrite_one(inputs, others, 1)
    assert not rewrite_one({"x": torch.ones(2)}, {"x": torch.ones(2)}, 1)
