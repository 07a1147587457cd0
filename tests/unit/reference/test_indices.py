"""Elements taken from, or put at, indices of which some are uncertain."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from reference_cases import bound_of, outputs_of

INF = float("inf")
# Row 0 has a tie at its maximum, row 1 has none.
X = torch.tensor([[3.0, 1.0, 3.0, 0.0], [1.0, 2.0, 5.0, 4.0]])
TABLE = torch.arange(8.0).view(4, 2)


def top(x: torch.Tensor) -> torch.Tensor:
    return x.topk(1, -1).indices


TAKING: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "gather": lambda x, table: table.t().gather(1, top(x)),
    "take_along_dim": lambda x, table: torch.take_along_dim(table.t(), top(x), 1),
    "embedding": lambda x, table: torch.nn.functional.embedding(top(x)[:, 0], table),
    "index_select": lambda x, table: table.index_select(0, top(x)[:, 0]),
    "take": lambda x, table: table.take(top(x)),
    "one index": lambda x, table: table[top(x)[:, 0]],
    "two indices": lambda x, table: table.t()[torch.arange(2), top(x)[:, 0]],
    "beside a slice": lambda x, table: torch.stack((table, table))[:, top(x)[:, 0]].transpose(0, 1),
    "apart": lambda x, table: torch.stack((table, table))[top(x)[:, 0] // 4, :, torch.arange(2)],
    "an axis of its own": lambda x, table: table[top(x)],
}


@pytest.mark.parametrize("name", TAKING)
def test_what_is_taken_at_a_certain_index_is_known(name: str) -> None:
    ((value, bound),) = outputs_of(TAKING[name], X, TABLE)
    assert torch.equal(value, TAKING[name](X.double(), TABLE.double()))
    assert bool((bound[0] == INF).all())
    assert not bool(bound[1].any())


PUTTING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "scatter number": lambda x: torch.zeros_like(x).scatter(1, top(x), 1.0),
    "scatter": lambda x: torch.zeros_like(x).scatter(1, top(x), x[:, :1]),
    "scatter_add": lambda x: torch.zeros_like(x).scatter_add(1, top(x), x[:, :1]),
    "scatter in place": lambda x: torch.zeros_like(x).scatter_(1, top(x), x[:, :1]),
    "integers": lambda x: torch.zeros(2, 4, dtype=torch.int64).scatter(1, top(x), torch.ones(2, 1).long()),
    "mask": lambda x: torch.zeros(2, 4, dtype=torch.bool).scatter(1, top(x), True),
    "one_hot": lambda x: torch.nn.functional.one_hot(top(x)[:, 0], 4),
}


@pytest.mark.parametrize("name", PUTTING)
def test_an_uncertain_index_may_hit_its_line_alone(name: str) -> None:
    ((value, bound),) = outputs_of(PUTTING[name], X)
    assert torch.equal(value, PUTTING[name](X.double()))
    assert bool((bound[0, [0, 2]] > 0).all())
    assert not bool(bound[1].any())


def test_lines_beyond_a_shorter_index_are_untouched() -> None:
    def reference(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x).scatter(1, top(x[:1]), 1.0)

    bound = bound_of(reference, X)
    assert bool((bound[0] == INF).all())
    assert not bool(bound[1].any())


def test_rounded_elements_keep_their_error_when_they_are_taken() -> None:
    ((_, bound),) = outputs_of(lambda x, table: torch.exp(table).t().gather(1, top(x)), X, TABLE)
    assert 0 < bound[1, 0] < 1e-3
