"""Indices followed from where they are selected to the outputs, and judged on real kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from input_regimes import draw
from reference_cases import follow

from gpuemu.model.contract import Contract
from gpuemu.model.expected import Expected, Selection
from gpuemu.model.observation import Observation
from gpuemu.model.verdict import Status
from gpuemu.oracle.bounds import accept
from gpuemu.oracle.compare import judge

Reference = Callable[..., Any]
X = torch.tensor([[3.0, 1.0, 2.0, 5.0], [0.0, 7.0, -2.0, 7.0]])


def selections(reference: Reference, x: torch.Tensor = X, **options: Any) -> list[Selection | None]:
    expected = follow(reference, x, **options)
    assert expected.problem is None, expected.problem
    return [output.selection for output in expected.outputs]


def accepted(expected: Expected, *outputs: torch.Tensor, contract: Contract | None = None) -> bool:
    contract = contract or Contract()
    return judge(Observation(outputs), expected, accept(expected, contract), contract).status is Status.PASS


SELECTING: dict[str, tuple[Reference, tuple[int, ...], bool]] = {
    "argmax": (lambda x: x.argmax(-1), (0,), True),
    "argmax flat": (lambda x: x.argmax(), (0,), True),
    "argmin": (lambda x: x.argmin(0, keepdim=True), (0,), False),
    "max": (lambda x: x.max(1).indices, (0,), True),
    "min": (lambda x: x.min(dim=1, keepdim=True)[1], (0,), False),
    "topk": (lambda x: x.topk(2).indices, (0, 1), True),
    "smallest": (lambda x: x.topk(3, -1, largest=False)[1], (0, 1, 2), False),
    "sort": (lambda x: x.sort(0).indices, (0, 1), False),
    "descending": (lambda x: torch.sort(x, descending=True)[1], (0, 1, 2, 3), True),
    "argsort": (lambda x: x.argsort(-1), (0, 1, 2, 3), False),
    "stable argsort": (lambda x: torch.argsort(x, stable=True), (0, 1, 2, 3), False),
    "kthvalue": (lambda x: x.kthvalue(2)[1], (1,), False),
    "median": (lambda x: x.median(-1).indices, (1,), False),
}  # fmt: skip


@pytest.mark.parametrize("name", SELECTING)
def test_every_selecting_op_says_what_its_indices_select(name: str) -> None:
    reference, ranks, largest = SELECTING[name]
    (found,) = selections(reference)
    assert found is not None
    assert (found.ranks, found.largest, found.stable) == (ranks, largest, name == "stable argsort")
    assert found.bound is None
    # Its own indices fit, by the oracle's independent reckoning; those of the negated input do not.
    expected = follow(reference, X)
    assert accepted(expected, reference(X))
    assert accepted(expected, reference(X).to(torch.int64).clone())
    assert not accepted(expected, reference(-X)) or name in ("median",)


MOVING: dict[str, Reference] = {
    "cast": lambda i: i.to(torch.int32),
    "unsqueeze": lambda i: i.unsqueeze(0).squeeze(0),
    "view": lambda i: i.contiguous().view(-1),
    "reshape": lambda i: i.t().reshape(2, 3).contiguous(),
    "transpose": lambda i: i.t().contiguous().clone(),
    "first": lambda i: i[:, :2],
    "second": lambda i: i[:, 1],
    "flip": lambda i: i.flip(1),
    "rows": lambda i: i[1:],
    "halves": lambda i: i.split(1, dim=0),
    "int8": lambda i: i.to(torch.int8).to(torch.int64),
    "two steps": lambda i: i.permute(1, 0)[1:].int().movedim(0, -1),
}


@pytest.mark.parametrize("name", MOVING)
@pytest.mark.parametrize("ties", [False, True])
def test_moved_indices_keep_their_places(name: str, ties: bool) -> None:
    x = (
        torch.tensor([[4.0, 1.0, 4.0, 2.0, 0.0], [1.0, 5.0, 3.0, 2.0, 2.0]])
        if ties
        else draw("normal", (2, 5), 3)
    )

    def reference(x: torch.Tensor) -> Any:
        return MOVING[name](x.sort(-1, descending=True).indices[:, :3])

    expected = follow(reference, x)
    assert all(output.selection is not None for output in expected.outputs)
    # A kernel that sorts from the other end resolves ties the other way.
    turned = 4 - x.flip(-1).sort(dim=-1, descending=True, stable=True).indices[:, :3]
    outputs = MOVING[name](turned)
    assert accepted(expected, *(outputs if isinstance(outputs, tuple) else (outputs,)))
    wrong = MOVING[name](x.sort(-1).indices[:, :3])
    assert not accepted(expected, *(wrong if isinstance(wrong, tuple) else (wrong,)))


def test_indices_along_another_axis_may_be_viewed() -> None:
    x = draw("normal", (4, 3), 5)
    expected = follow(lambda x: x.sort(0).indices.view(2, 2, 3), x)
    assert expected.outputs[0].selection is not None
    assert accepted(expected, x.sort(0).indices.view(2, 2, 3))
    assert not accepted(expected, x.sort(1).indices.view(2, 2, 3))


def test_computed_or_overwritten_indices_are_not_tracked() -> None:
    def overwritten(x: torch.Tensor) -> torch.Tensor:
        indices = x.argmax(-1)
        indices.add_(1)
        return indices

    for reference in (
        overwritten,
        lambda x: x.argmax(-1) + 1,
        lambda x: x.argmax(-1).float(),
        lambda x: x.topk(2)[1].sum(-1),
        lambda x: x.argmax(-1).expand(3, 2),
        lambda x: torch.cat((x.argmax(-1), x.argmin(-1))),
    ):
        assert selections(reference, torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])) == [None]


def test_overwriting_the_scores_afterwards_changes_nothing() -> None:
    def reference(x: torch.Tensor) -> torch.Tensor:
        y = x * 1.0
        y.mul_(1.0)
        indices = y.argmax(-1)
        y.zero_()
        return indices

    (found,) = selections(reference)
    assert found is not None
    assert torch.equal(found.scores, X.double())


def test_bounds_come_from_the_scores() -> None:
    (found,) = selections(lambda x: torch.softmax(x, -1).argmax(-1))
    assert found is not None
    assert found.bound is not None
    assert bool((found.bound > 0).all())
    assert torch.equal(found.scores, torch.softmax(X.double(), -1))


def test_integer_scores_are_tracked_too() -> None:
    x = torch.tensor([[3, 9, 9], [1, 0, -5]])
    expected = follow(lambda x: x.argmax(-1), x)
    assert accepted(expected, torch.tensor([2, 0]))
    assert not accepted(expected, torch.tensor([0, 0]))


def test_values_are_tied_to_their_indices() -> None:
    for reference in (
        lambda x: tuple(x.topk(2)),
        lambda x: tuple(x.max(-1)),
        lambda x: (x.sort(0).values.t(), x.sort(0).indices),
        lambda x: tuple(part.t() for part in x.sort(0)),
    ):
        found = selections(reference)[1]
        assert found is not None
    assert [s.values for s in selections(lambda x: tuple(part.t() for part in x.sort(0))) if s] == [0]
    swapped = selections(lambda x: tuple(reversed(x.topk(2))))
    assert swapped[0] is not None
    assert swapped[0].values == 1
    apart = selections(lambda x: (x.topk(2)[0] * 2.0, x.topk(2)[1]))[1]
    assert apart is not None
    assert apart.values is None


def test_nan_among_the_scores_is_told_by_its_cause() -> None:
    nan, inf = float("nan"), float("inf")
    (found,) = selections(lambda x: (x - x).argmax(-1), torch.tensor([[1.0, nan, 3.0], [1.0, 2.0, inf]]))
    assert found is not None
    assert found.expects_nan is not None
    assert found.expects_nan.tolist() == [[False, True, False], [False, False, False]]


@pytest.mark.parametrize("name", sorted(SELECTING))
def test_torch_itself_propagates_nan_as_the_selection_says(name: str) -> None:
    x = torch.tensor([[3.0, float("nan"), 2.0, 5.0], [float("nan"), 7.0, -2.0, float("nan")]])
    reference = SELECTING[name][0]
    if name == "median":
        return  # the median of a row with a NaN is that NaN, wherever it would rank
    assert accepted(follow(reference, x), reference(x), contract=Contract(nan="propagate"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("seed", range(4))
def test_a_float32_router_is_accepted_at_near_ties(dtype: torch.dtype, seed: int) -> None:
    """Softmax then top-k in float32, in another order of operations than the reference."""
    x = (draw("normal", (64, 96), seed) * 1e-3).to(dtype)

    def reference(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(torch.softmax(x, -1).topk(8))

    e = torch.exp2((x.float() - x.float().amax(-1, keepdim=True)) * 1.4426950408889634)
    values, indices = (e * (1.0 / e.flip(-1).sum(-1, keepdim=True))).topk(8)
    expected = follow(reference, x)
    assert accepted(expected, values.to(dtype), indices)
    coarse = torch.softmax(x.float(), -1).bfloat16().float().topk(8).indices
    assert not accepted(expected, values.to(dtype), coarse)
