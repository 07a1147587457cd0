"""Comparisons and logic on what a rounding may change (rule 2)."""

from __future__ import annotations

import math

import torch
from reference_cases import bound_of, follow, outputs_of


def shifted(x: torch.Tensor) -> torch.Tensor:
    """x + 0.1 - 0.1, within about 1e-8 of x."""
    return (x + 0.1) - 0.1


X = torch.tensor([0.0, 1e-9, -1e-9, 0.5, -0.5])


def test_comparisons_are_ambiguous_where_intervals_overlap() -> None:
    for compare in (torch.gt, torch.ge, torch.lt, torch.le, torch.eq, torch.ne):
        ((value, bound),) = outputs_of(lambda x, f=compare: f(shifted(x), 0.0), X)
        assert value.dtype == torch.bool
        assert (bound > 0).tolist() == [True, True, True, False, False]


def test_exact_comparisons_are_certain() -> None:
    for compare in (torch.gt, torch.eq):
        assert bool((bound_of(lambda x, f=compare: f(x, 0.0), X) == 0).all())


def test_where_on_an_ambiguous_bool_admits_both_branches() -> None:
    bound = bound_of(lambda x: torch.where(shifted(x) > 0, 3.0, -1.0), X)
    assert bound.tolist() == [4.0, 4.0, 4.0, 0.0, 0.0]


def test_the_error_of_either_branch_is_added() -> None:
    bound = bound_of(lambda x: torch.where(shifted(x) > 0, (x + 1000.1) - 997.1, -1.0), X)
    assert bool((bound[:3] > 4 + 1e-5).all())


def test_exact_elements_are_certain_beside_inexact_ones() -> None:
    def reference(x: torch.Tensor) -> torch.Tensor:
        return torch.where(torch.tensor([True, False, True, True, True]), x, shifted(x)) > 0

    assert (bound_of(reference, X) > 0).tolist() == [False, True, False, False, False]


def test_masked_fill_on_an_ambiguous_mask_admits_both() -> None:
    bound = bound_of(lambda x: x.masked_fill(shifted(x) > 0, 2.0), X)
    assert bound[:3].tolist() == [2.0, 2.0 - float(X[1]), 2.0 - float(X[2])]
    assert bound[3:].tolist() == [0.0, 0.0]
    assert bool(bound_of(lambda x: x.masked_fill(shifted(x) > 0, -math.inf), X)[:3].isinf().all())


def test_branch_errors_stay_with_their_branch() -> None:
    bound = bound_of(lambda x: torch.where(x > 0, x * 0.1, x), torch.tensor([2.0, -2.0]))
    assert bound[0] > 0
    assert bound[1] == 0


def test_unselected_overflow_does_no_harm() -> None:
    bound = bound_of(lambda x: torch.where(x > 10, x, x.exp()), torch.tensor([1000.0, 1.0]))
    assert bound[0] == 0
    assert 0 < bound[1] < 1e-5


def test_logic_is_certain_where_a_certain_operand_decides() -> None:
    def reference(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        doubtful = shifted(x) > 0
        never, always = x > 100, x < 100
        return (
            doubtful & never,
            doubtful & always,
            doubtful | always,
            doubtful | never,
            ~doubtful,
            doubtful ^ always,
        )

    doubts = [(bound > 0).any().item() for _, bound in outputs_of(reference, X)]
    assert doubts == [False, True, False, True, True, True]


def test_reductions_of_bools() -> None:
    rows = torch.stack((X, X + 1))
    for reduce, expected in ((torch.any, [False, False]), (torch.all, [False, False])):
        bound = bound_of(lambda x, f=reduce: f(shifted(x) > 0, -1), rows)
        assert (bound > 0).tolist() == expected
    assert (bound_of(lambda x: (shifted(x) > 0.2).any(-1), X[None, :3]) > 0).tolist() == [False]
    assert (bound_of(lambda x: (shifted(x) > 0).any(-1), X[None, :3]) > 0).tolist() == [True]


def test_counting_doubtful_bools_carries_the_doubt() -> None:
    ((value, bound),) = outputs_of(lambda x: (shifted(x) > 0).sum(), X)
    assert value.item() in (1, 2, 3, 4)
    assert bound.item() == 3.0


def test_multiplying_by_a_doubtful_mask_admits_zero_and_the_number() -> None:
    bound = bound_of(lambda x: (x + 7) * (shifted(x) > 0), X)
    assert bool((bound[:3] >= 7 - 1e-6).all())
    assert bool((bound[3:] < 1e-5).all())


def test_an_unknown_number_gives_an_unknown_bool() -> None:
    x = torch.tensor([1e30, 1.0])
    assert (bound_of(lambda x: x * x > 1e30, x) > 0).tolist() == [True, False]
    assert (bound_of(lambda x: torch.isinf(x * x), x) > 0).tolist() == [True, False]


def test_branching_in_python_on_doubt_is_a_problem() -> None:
    problem = follow(lambda x: x if bool((shifted(x) > 0).all()) else -x, X[:4]).problem
    assert problem is not None
    assert "branches" in problem
    assert follow(lambda x: x if bool((shifted(x) > -9).all()) else -x, X).problem is None
