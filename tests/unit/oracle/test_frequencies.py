"""Binomial tails against scipy-free exact sums, and false alarms of the tests on random draws."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu.oracle.frequencies import LEVEL, binomial_tail, choice_objection, rate_objection


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40), st.integers(0, 40), st.fractions(Fraction(1, 50), Fraction(49, 50), max_denominator=50)
)
def test_the_tail_is_the_exact_sum(trials: int, count: int, probability: Fraction) -> None:
    count = min(count, trials)
    terms = [
        math.comb(trials, k) * probability**k * (1 - probability) ** (trials - k) for k in range(trials + 1)
    ]
    exact = sum(terms[: count + 1]) if count <= trials * probability else sum(terms[count:])
    assert binomial_tail(count, trials, float(probability)) == pytest.approx(float(exact), rel=1e-9)


def test_tails_of_large_numbers_are_those_of_the_normal_distribution() -> None:
    # Six standard deviations out of 10^8 trials; the normal tail with continuity correction is right to 1e-3.
    trials, deviations = 10**8, 6.0
    count = int(trials / 2 + deviations * math.sqrt(trials) / 2)
    normal = 0.5 * math.erfc((count - 0.5 - trials / 2) / math.sqrt(trials) * math.sqrt(2.0))
    assert binomial_tail(count, trials, 0.5) == pytest.approx(normal, rel=1e-2)


def test_certain_rates_leave_no_choice() -> None:
    mask = torch.ones(5, dtype=torch.bool)
    assert rate_objection(mask, None, 1.0, "kept") == ""
    mask[2] = False
    assert "4 of 5 random decisions are true" in rate_objection(mask, None, 1.0, "kept")
    assert rate_objection(~mask[:2], None, 0.0, "kept") == ""
    assert rate_objection(torch.zeros(0, dtype=torch.bool), None, 0.3, "kept") == ""


@pytest.mark.parametrize("rate", [0.5, 0.9, 0.01])
def test_masks_of_the_right_rate_pass_and_others_do_not(rate: float) -> None:
    random = torch.Generator().manual_seed(7)
    mask = torch.rand(200, 300, generator=random) < rate
    assert rate_objection(mask, None, rate, "kept") == ""
    wrong = torch.rand(200, 300, generator=random) < rate + 0.02
    assert rate_objection(wrong, None, rate, "kept")
    assert (
        rate_objection(~mask, None, rate, "kept") == ""
        if rate == 0.5
        else rate_objection(~mask, None, rate, "")
    )


def test_elements_that_cannot_be_seen_do_not_count() -> None:
    mask = torch.zeros(1000, dtype=torch.bool)
    among = torch.zeros(1000, dtype=torch.bool)
    among[:3] = True
    assert rate_objection(mask, among, 0.5, "kept") == ""
    assert rate_objection(mask, None, 0.5, "kept")


def test_one_mask_for_every_row_is_one_draw() -> None:
    # 20 true of 64, 500 times over: impossible as 32,000 draws at rate 1/2, plain as 64.
    row = torch.arange(64) < 20
    assert rate_objection(row.expand(500, 64), None, 0.5, "kept") == ""
    assert rate_objection(row.expand(4, 500, 64), None, 0.5, "kept") == ""
    assert rate_objection(row[:, None].expand(64, 500), None, 0.5, "kept")  # all of a row or nothing is one
    hidden = torch.ones(500, 64, dtype=torch.bool)
    hidden[3, 5] = False
    seen = row.expand(500, 64).clone()
    seen[3, 5] = ~seen[3, 5]  # differs only where nothing can be seen
    assert rate_objection(seen, hidden, 0.5, "kept") == ""
    assert rate_objection(torch.zeros(64, 1, dtype=torch.bool), None, 0.5, "kept")  # a decision per row
    for kept in (True, False):
        assert rate_objection(torch.full((500, 64), kept), None, 0.5, "kept")
    shuffled = torch.stack([row.roll(i) for i in range(500)])
    assert rate_objection(shuffled, None, 0.5, "kept")


def draw(probabilities: torch.Tensor, seed: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.multinomial(probabilities, 1, generator=random)[:, 0]


def table(rows: int, size: int, spread: float = 2.0) -> torch.Tensor:
    random = torch.Generator().manual_seed(rows + size)
    logits = spread * torch.randn(rows, size, generator=random, dtype=torch.float64)
    return torch.softmax(logits, -1)


@pytest.mark.parametrize("size", [1, 2, 10, 300])
def test_draws_from_the_distribution_pass(size: int) -> None:
    for seed in range(20):
        probabilities = table(1000, size)
        assert choice_objection(draw(probabilities, seed), probabilities, "choice") == ""


def test_no_false_alarm_at_a_level_that_is_easily_met() -> None:
    """Of 400 honest samples none is refused, nor would one be at a level a thousand times as high."""
    assert LEVEL <= 1e-9
    probabilities = table(200, 20).expand(200, 20)
    assert all(choice_objection(draw(probabilities, seed), probabilities, "c") == "" for seed in range(400))


def test_wrong_distributions_are_refused() -> None:
    probabilities = table(3000, 50)
    likeliest = probabilities.argmax(-1)
    assert choice_objection(likeliest, probabilities, "choice")
    sharper = probabilities**1.3
    assert "less likely half is chosen" in choice_objection(draw(sharper, 0), probabilities, "choice")
    same = probabilities[:1].expand(3000, 50)
    off_by_one = (draw(same, 1) + 1) % 50
    assert "index" in choice_objection(off_by_one, same, "choice")
    without_last = same.clone()
    without_last[:, int(same[0].argmax())] = 0
    assert choice_objection(draw(without_last, 2), same, "choice")


def test_an_impossible_index_is_refused_at_once() -> None:
    probabilities = torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64)
    assert choice_objection(torch.tensor([2]), probabilities, "choice")
    assert choice_objection(torch.tensor([1]), probabilities, "choice") == ""
    for outside in (3, -1, 2**40):
        assert "is outside 0 to 2" in choice_objection(torch.tensor([outside]), probabilities, "choice")


def test_rows_without_a_distribution_are_left_out() -> None:
    probabilities = torch.full((4, 3), float("nan"), dtype=torch.float64)
    assert choice_objection(torch.tensor([0, 1, 2, 2]), probabilities, "choice") == ""
