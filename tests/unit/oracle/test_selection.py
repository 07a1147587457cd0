"""Selected indices against brute force over all scores that a kernel may have computed."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_cases import INF, NAN

from gpuemu.model.contract import Contract
from gpuemu.model.expected import Expected, ExpectedOutput, Selection
from gpuemu.model.observation import Observation
from gpuemu.model.verdict import Flag, Kind, Status, Verdict
from gpuemu.oracle import bounds
from gpuemu.oracle.bounds import accept
from gpuemu.oracle.compare import judge
from gpuemu.oracle.hints import hint
from gpuemu.oracle.selection import contains, judged


def selection(
    scores: list[list[float]], bound: list[list[float]] | float | None = None, count: int = 1, **options: Any
) -> Selection:
    """A selection of the first `count` ranks of every row, laid out row by row."""
    table = torch.tensor(scores, dtype=options.pop("dtype", torch.float64))
    errors = None if bound is None else torch.as_tensor(bound, dtype=torch.float64).expand(table.shape)
    ranks = options.pop("ranks", tuple(range(count)))
    positions = torch.arange(table.shape[0] * len(ranks)).view(-1, len(ranks))
    return Selection(table, errors, positions, ranks, **options)


def accepts(indices: list[list[int]], chosen: Selection, nan: Any = "report") -> bool:
    return bool(contains(torch.tensor(indices), chosen, nan).all())


def expecting(chosen: Selection, *values: ExpectedOutput) -> Expected:
    shape = chosen.positions.shape
    indices = ExpectedOutput(
        torch.zeros(shape, dtype=torch.int64), torch.zeros(shape), "int64", selection=chosen
    )
    return Expected((*values, indices), "P0")


def verdict_on(chosen: Selection, indices: torch.Tensor, contract: Contract | None = None) -> Verdict:
    contract = contract or Contract()
    expected = expecting(chosen)
    return judge(Observation((indices,)), expected, accept(expected, contract), contract)


def legitimate(
    scores: list[int], errors: list[int], indices: tuple[int, ...], ranks: tuple[int, ...], largest: bool
) -> bool:
    """Whether some scores within their bounds put these indices at these ranks, ties in any order."""
    ends = [range(s - e, s + e + 1) for s, e in zip(scores, errors, strict=True)]
    for computed in itertools.product(*ends):
        sign = -1 if largest else 1
        keyed = [sign * c for c in computed]
        if all(sorted(keyed)[r] == keyed[i] for i, r in zip(indices, ranks, strict=True)):
            return True
    return False


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_an_order_is_accepted_if_and_only_if_some_scores_give_it(data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 4))
    scores = data.draw(st.lists(st.integers(-3, 3), min_size=length, max_size=length))
    errors = data.draw(st.lists(st.integers(0, 2), min_size=length, max_size=length))
    count = data.draw(st.integers(1, length))
    largest = data.draw(st.booleans())
    chosen = selection([list(map(float, scores))], [list(map(float, errors))], count, largest=largest)
    for indices in itertools.permutations(range(length), count):
        due = legitimate(scores, errors, indices, chosen.ranks, largest)
        assert accepts([list(indices)], chosen) == due, (scores, errors, indices)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_rank_within_the_row_is_judged_by_how_many_stand_above_and_below(data: st.DataObject) -> None:
    length = data.draw(st.integers(2, 4))
    scores = data.draw(st.lists(st.integers(-3, 3), min_size=length, max_size=length))
    errors = data.draw(st.lists(st.integers(0, 2), min_size=length, max_size=length))
    ranks = (data.draw(st.integers(1, length - 1)),)
    chosen = selection([list(map(float, scores))], [list(map(float, errors))], ranks=ranks)
    for index in range(length):
        assert accepts([[index]], chosen) == legitimate(scores, errors, (index,), ranks, True)


def test_an_unordered_selection_is_a_set() -> None:
    chosen = selection([[5.0, 1.0, 4.0, 3.0]], count=2, ordered=False)
    assert accepts([[2, 0]], chosen)
    assert accepts([[0, 2]], chosen)
    assert not accepts([[0, 3]], chosen)
    assert not accepts([[0, 0]], chosen)


@pytest.mark.parametrize("index", [-1, 3, 2**40, -(2**62)])
def test_what_is_no_index_is_refused_and_does_not_crash(index: int) -> None:
    assert not accepts([[index]], selection([[1.0, 1.0, 1.0]]))
    verdict = verdict_on(selection([[1.0, 1.0, 1.0]]), torch.tensor([[index]]))
    assert verdict.status is Status.FAIL
    assert f"index {index} is outside 0 to 2" in verdict.message


def test_indices_of_other_dtypes_are_read() -> None:
    chosen = selection([[1.0, 3.0, 2.0]])
    for dtype in (torch.int32, torch.uint8, torch.int16, torch.float32):
        assert contains(torch.tensor([[1]], dtype=dtype), chosen).tolist() == [[True]]
    for garbage in (NAN, INF, 1.5, -1e30):
        assert contains(torch.tensor([[garbage]]), chosen).tolist() == [[False]]


def test_integer_scores_are_compared_exactly() -> None:
    large = 2**53
    for largest, best in ((True, 1), (False, 0)):
        chosen = selection([[large, large + 1]], dtype=torch.int64, largest=largest)
        assert [accepts([[i]], chosen) for i in (0, 1)] == [i == best for i in (0, 1)]
    lowest = selection([[-(2**63), 0]], dtype=torch.int64, largest=False)
    assert [accepts([[i]], lowest) for i in (0, 1)] == [True, False]


def test_ties_go_by_position_only_where_that_is_promised() -> None:
    scores = [[2.0, 1.0, 2.0, 2.0]]
    assert accepts([[3]], selection(scores))
    for count, right, wrong in ((1, [[0]], [[2]]), (2, [[0, 2]], [[2, 0]]), (3, [[0, 2, 3]], [[0, 3, 2]])):
        assert accepts(right, selection(scores, count=count, stable=True))
        assert not accepts(wrong, selection(scores, count=count, stable=True))
    assert not accepts([[2, 3]], selection(scores, count=2, stable=True))
    assert accepts([[2]], selection(scores, 0.1, stable=True))  # nobody knows whether these are ties
    stable = Contract(stable=True)
    assert verdict_on(selection(scores), torch.tensor([[2]]), stable).status is Status.FAIL
    assert verdict_on(selection(scores), torch.tensor([[0]]), stable).status is Status.PASS


def with_nan(**options: Any) -> Selection:
    chosen = selection([[1.0, NAN, 3.0]], **options)
    return replace(chosen, expects_nan=chosen.scores.isnan())


def test_a_nan_comes_first_or_last_where_it_must_be_propagated() -> None:
    assert [accepts([[i]], with_nan(), "propagate") for i in range(3)] == [False, True, False]
    last = {"largest": False, "nan_first": False, "count": 3}
    assert accepts([[0, 2, 1]], with_nan(**last), "propagate")
    assert not accepts([[1, 0, 2]], with_nan(**last), "propagate")
    infinite = replace(with_nan(), scores=torch.tensor([[INF, NAN, 3.0]], dtype=torch.float64))
    assert [accepts([[i]], infinite, "propagate") for i in range(3)] == [False, True, False]


def test_a_row_with_a_nan_is_reported_but_not_failed_by_default() -> None:
    assert [accepts([[i]], with_nan()) for i in range(4)] == [True, True, True, False]
    assert verdict_on(with_nan(), torch.tensor([[1]])).flags == ()
    verdict = verdict_on(with_nan(), torch.tensor([[2]]))
    assert (verdict.status, verdict.flags) == (Status.PASS, (Flag.NAN_SEMANTICS,))
    assert verdict_on(with_nan(), torch.tensor([[2]]), Contract(nan="propagate")).status is Status.FAIL


def test_scores_of_which_nothing_is_known_may_stand_anywhere() -> None:
    chosen = selection([[1.0, 5.0, 3.0]], [[INF, 0.0, 0.0]])
    assert [accepts([[i]], chosen) for i in range(3)] == [True, True, False]
    assert judged(chosen) == 1
    assert judged(selection([[1.0, 2.0], [1.0, 2.0]], [[INF, INF], [0.0, 0.0]])) == 1
    own = selection([[NAN, 5.0, 3.0]])  # a NaN that no input explains
    assert [accepts([[i]], own, "propagate") for i in range(3)] == [True, True, False]


def test_infinite_scores_are_ordered_and_tie() -> None:
    chosen = selection([[INF, -INF, 1.0, INF]], count=2)
    assert accepts([[3, 0]], chosen)
    assert not accepts([[0, 2]], chosen)
    assert accepts([[1]], selection([[INF, -INF, 1.0]], largest=False))


def test_the_score_is_the_distance_in_bounds() -> None:
    chosen = selection([[1.0, 1.25, 0.0]], 0.5)
    verdict = verdict_on(chosen, torch.tensor([[0]]))
    assert verdict.status is Status.PASS
    assert verdict.errors is not None
    assert verdict.errors.max_bound_units == 0.25
    verdict = verdict_on(chosen, torch.tensor([[2]]))
    assert (verdict.status, verdict.kind) == (Status.FAIL, Kind.VALUE)
    assert verdict.worst is not None
    assert verdict.worst.error_bound_units == 1.25
    assert "index 2 selects 0, the maximum is 1.25 at 1" in verdict.message


def test_messages_say_what_is_wrong() -> None:
    row = [[0.5, 4.0, 2.0, 3.0]]
    two = selection(row, count=2)
    assert "index 1 stands in the row twice" in verdict_on(two, torch.tensor([[1, 1]])).message
    assert "index 3 selects 3 at rank 0, before 4 at 1" in verdict_on(two, torch.tensor([[3, 1]])).message
    assert "the minimum is 0.5 at 0" in verdict_on(selection(row, largest=False), torch.tensor([[1]])).message
    message = verdict_on(selection(row, ranks=(1,)), torch.tensor([[2]])).message
    assert "index 2 selects 2 at rank 1 of the largest, where 3 at 3 is due" in message


@pytest.mark.parametrize(
    ("indices", "sentence"),
    [
        ([[2, 4], [4, 3]], "every index is one too large"),
        ([[0, 2], [2, 1]], "every index is one too small"),
        ([[2, 0], [0, 1]], "the smallest are selected instead"),
        ([[3, 1], [2, 3]], "the right elements are selected, in the wrong order"),
        ([[1, 1], [3, 2]], "every wrong index stands in its row twice"),
        ([[1, -7], [3, 2]], "every wrong index is out of range"),
    ],
)
def test_hints_name_what_wrong_indices_have_in_common(indices: list[list[int]], sentence: str) -> None:
    expected = expecting(selection([[2.0, 4.0, 1.0, 3.0], [1.0, 2.0, 3.0, 4.0]], count=2))
    accepted = accept(expected).outputs[0]
    assert hint(torch.tensor(indices), expected.outputs[0], accepted) == sentence


def values_of(values: list[list[float]], bound: float = 0.0) -> ExpectedOutput:
    value = torch.tensor(values, dtype=torch.float64)
    return ExpectedOutput(value, torch.full_like(value, bound), "float32")


def judge_pair(
    chosen: Selection, values: list[list[float]], indices: list[list[int]], bound: float = 0.0
) -> Verdict:
    expected = expecting(replace(chosen, values=0), values_of([[5.0, 4.0]], bound))
    outputs = torch.tensor(values, dtype=torch.float32), torch.tensor(indices)
    return judge(Observation(outputs), expected, accept(expected), Contract())


def test_selected_values_must_suit_the_indices() -> None:
    tied = selection([[5.0, 4.0, 4.0, 1.0]], count=2)
    assert judge_pair(tied, [[5.0, 4.0]], [[0, 2]]).status is Status.PASS
    # Either output is right for itself: 0 and 1 may be exchanged, and 4.25 is within the bound of 4.
    close = selection([[4.5, 4.0]], [[0.25, 0.25]], count=2)
    assert judge_pair(close, [[4.5, 4.0]], [[0, 1]], bound=0.75).status is Status.PASS
    verdict = judge_pair(close, [[4.8, 4.1]], [[0, 1]], bound=0.75)
    assert verdict.status is Status.FAIL
    assert verdict.worst is not None
    assert verdict.worst.output == 0


def test_unordered_values_are_judged_beside_their_indices() -> None:
    chosen = selection([[5.0, 1.0, 4.0]], count=2, ordered=False)
    assert judge_pair(chosen, [[4.0, 5.0]], [[2, 0]]).status is Status.PASS
    assert judge_pair(chosen, [[5.0, 4.0]], [[2, 0]]).status is Status.FAIL
    assert judge_pair(chosen, [[5.0, 4.0]], [[7, -3]]).status is Status.FAIL


def test_bounds_of_scores_are_scaled_widened_and_coarsened() -> None:
    expected = expecting(selection([[1.0, 1.25]], 0.1))
    wrong = torch.tensor([[0]])
    assert not bool(accept(expected).outputs[0].contains(wrong).all())
    assert bool(accept(bounds.scale(expected, 2.0)).outputs[0].contains(wrong).all())
    assert bool(accept(bounds.coarsen(expected)).outputs[0].contains(wrong).all())
    own = expecting(selection([[1.0, 1.25]], 0.05))
    assert bool(accept(bounds.widen(expected, own)).outputs[0].contains(wrong).all())
    exact = expecting(selection([[1.0, 1.25]]))
    assert bool(
        accept(bounds.widen(exact, expecting(selection([[1.0, 1.25]], 0.2)))).outputs[0].contains(wrong).all()
    )


def test_generic_scores_convict_only_what_is_gross() -> None:
    expected = replace(expecting(selection([[1.0, 1.001, 0.0]], 1e-6)), generic=("some_op",))
    near, far = (
        judge(Observation((torch.tensor([[i]]),)), expected, accept(expected), Contract()) for i in (0, 2)
    )
    assert (near.status, far.status) == (Status.PASS, Status.FAIL)
    assert Flag.SUSPICIOUS in near.flags


def test_positions_say_where_the_ranks_of_a_row_stand() -> None:
    # The indices of a sort along the first axis: rows of scores are columns of the output.
    scores = torch.tensor([[3.0, 1.0, 2.0], [1.0, 2.0, 3.0]], dtype=torch.float64)
    chosen = Selection(scores, None, torch.tensor([[0, 2, 4], [1, 3, 5]]), (0, 1, 2), largest=False)
    assert bool(contains(torch.tensor([[1, 0], [2, 1], [0, 2]]), chosen).all())
    assert contains(torch.tensor([[1, 1], [2, 0], [0, 2]]), chosen).tolist() == [
        [True, False], [True, True], [True, True],
    ]  # fmt: skip
