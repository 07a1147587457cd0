"""Order statistics, their places, and the most frequent value (ORACLE.md section 2.5)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from reference_cases import assert_accepted, follow, outputs_of

from gpuemu.model.contract import Contract
from gpuemu.model.observation import Observation
from gpuemu.model.verdict import Status
from gpuemu.oracle.bounds import accept
from gpuemu.oracle.compare import judge

X = torch.tensor([[5.0, 1.0, 4.0, 2.0, 3.0], [1.0, 2.0, 2.0, 2.0, 7.0]])
RANKED: dict[str, Any] = {
    "kthvalue": lambda x: torch.kthvalue(x, 3, -1),
    "median": lambda x: torch.median(x, -1),
    "nanmedian": lambda x: torch.nanmedian(x, -1),
    "keepdim": lambda x: torch.kthvalue(x, 3, -1, True),
}


@pytest.mark.parametrize("name", RANKED)
@pytest.mark.parametrize("factor", [1.0, 1.1])
def test_a_place_is_in_doubt_beside_equals_only(name: str, factor: float) -> None:
    """Elements apart by more than their errors have their place; of three equal ones each may stand there."""
    (value, _), (place, doubt) = outputs_of(lambda x: tuple(RANKED[name](x * factor)), X)
    assert value.flatten().tolist() == pytest.approx([3.0 * factor, 2.0 * factor])
    assert place.flatten()[0] == 4
    assert (doubt > 0).flatten().tolist() == [False, True]


@pytest.mark.parametrize("name", RANKED)
def test_what_is_taken_at_a_certain_place_is_certain(name: str) -> None:
    other = torch.tensor([[10.0, 20.0, 30.0, 40.0, 50.0], [1.0, 2.0, 3.0, 4.0, 5.0]])

    def reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        place = RANKED[name](x * 1.1)[1].reshape(2, 1)
        return y.gather(-1, place)

    ((value, bound),) = outputs_of(reference, X, other)
    assert value[0].item() == 50.0
    assert bound.flatten().tolist() == [0.0, float("inf")]


@pytest.mark.parametrize("name", RANKED)
def test_a_place_is_judged_by_the_value_that_stands_there(name: str) -> None:
    expected = follow(lambda x: tuple(RANKED[name](x * 1.1)), X)
    assert expected.problem is None
    contract = Contract()

    def status(*places: int) -> Status:
        values, _ = RANKED[name](X * 1.1)
        given = torch.tensor(places).reshape(values.shape)
        return judge(Observation((values, given)), expected, accept(expected, contract), contract).status

    assert all(status(4, place) is Status.PASS for place in (1, 2, 3))
    assert status(4, 0) is Status.FAIL
    assert status(2, 1) is Status.FAIL


@pytest.mark.parametrize("seed", range(4))
def test_a_most_frequent_value_may_be_any_that_is(seed: int) -> None:
    x = torch.randint(0, 4, (6, 9), generator=torch.Generator().manual_seed(seed)).float()
    (value, bound), (_, doubt) = outputs_of(lambda x: tuple(torch.mode(x, -1)), x)
    for row, v, b in zip(x.tolist(), value, bound, strict=True):
        counts = Counter(row)
        best = [number for number, count in counts.items() if count == max(counts.values())]
        assert v in best
        assert b == max(abs(v.item() - number) for number in best)
    assert_accepted(torch.mode(x, -1)[0], value, bound, "float32")
    assert bool((doubt > 0).all())


def test_the_most_frequent_of_uncertain_numbers_is_one_of_them() -> None:
    (value, bound), _ = outputs_of(lambda x: tuple(torch.mode(x * 1.1, -1)), X)
    for row, v, b in zip((X * 1.1).tolist(), value, bound, strict=True):
        furthest = max(abs(v.item() - number) for number in row)
        assert furthest <= b <= furthest * 1.001
