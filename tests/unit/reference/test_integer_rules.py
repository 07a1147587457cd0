"""Rounding to integers and what is computed from codes, against every code that a kernel may have."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_cases import bound_of, follow, outputs_of

from gpuemu.model.op import Contract
from gpuemu.oracle.bounds import accept

# x / 0.1 is within a rounding of a tie at these, and only at these.
NEAR_TIES = torch.tensor([0.25, 0.35, 0.3, -0.05, -0.15, 0.05])


def codes(x: torch.Tensor, low: float = -8.0, high: float = 7.0) -> torch.Tensor:
    """Codes that a rounding may change by one at the ties of `NEAR_TIES`."""
    return torch.round((x + 100.0 - 100.0) * 10.0).clamp(low, high)


def test_codes_are_uncertain_at_ties_alone() -> None:
    ((value, bound),) = outputs_of(lambda x: codes(x).to(torch.int8), NEAR_TIES)
    assert bound.tolist() == [1.0, 1.0, 0.0, 1.0, 1.0, 1.0]
    assert value.dtype == torch.int8


INTEGER_OPS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "and": lambda q: q & 15,
    "or": lambda q: q | 5,
    "xor": lambda q: q ^ 3,
    "not": lambda q: ~q,
    "shift left": lambda q: q << 2,
    "shift right": lambda q: q >> 1,
    "clamp": lambda q: q.clamp(-1, 2),
    "floor": lambda q: q // 2,
    "remainder": lambda q: q % 3,
    "sign": lambda q: q.sign(),
    "abs": lambda q: q.abs(),
    "unsigned": lambda q: q.to(torch.int8).view(torch.uint8),
    "largest": lambda q: torch.maximum(q, -q),
    "affine": lambda q: 3 * q - 7,
    "packed": lambda q: (q[0::2] & 15) | ((q[1::2] & 15) << 4),
}


@pytest.mark.parametrize("name", INTEGER_OPS)
def test_the_bound_covers_every_code_and_says_nothing_of_certain_ones(name: str) -> None:
    function = INTEGER_OPS[name]
    ((value, bound),) = outputs_of(lambda x: function(codes(x).to(torch.int32)), NEAR_TIES)
    exact = torch.round(NEAR_TIES.double() * 10.0).clamp(-8, 7)
    nominal = codes(NEAR_TIES.double()).to(torch.int32)
    assert torch.equal(value, function(nominal))
    worst = torch.zeros_like(bound)
    doubtful = [i for i in range(6) if i != 2]
    for offsets in itertools.product((-1, 0, 1), repeat=len(doubtful)):
        moved = nominal.clone()
        moved[doubtful] += torch.tensor(offsets, dtype=torch.int32)
        moved.clamp_(-8, 7)
        worst = torch.maximum(worst, (function(moved).double() - value.double()).abs())
    assert bool((bound >= worst).all())
    if name == "packed":  # a shifted code is no small deviation any more
        assert bool((bound == torch.inf).all())
    else:
        assert torch.equal(bound, worst)
    assert value.dtype == function(exact.to(torch.int32)).dtype


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-6, 6), min_size=1, max_size=8))
def test_exact_codes_stay_plain(numbers: list[int]) -> None:
    x = torch.tensor(numbers, dtype=torch.float32)
    assert not bool(bound_of(lambda x: (torch.round(x).to(torch.int32) & 15) << 4, x).any())


def test_of_two_equally_near_integers_either_is_right() -> None:
    x = torch.tensor([0.5, 1.5, -2.5, 2.0, 0.49])
    expected = follow(torch.round, x)
    accepted = accept(expected, Contract()).outputs[0]
    half_up = torch.floor(x + 0.5)
    assert bool(accepted.contains(torch.round(x)).all())
    assert bool(accepted.contains(half_up).all())
    assert accepted.contains(torch.trunc(x) + 5).any().item() is False


@pytest.mark.parametrize(
    ("target", "x", "known"),
    [
        (torch.int8, [-128.0, 127.0, 128.0, -129.0], [True, True, False, False]),
        (torch.uint8, [0.0, 255.0, 256.0, -1.0, -0.5], [True, True, False, False, True]),
        (torch.int32, [-(2.0**31), 2.0**31, 0.0], [True, False, True]),
    ],
)
def test_floats_that_do_not_fit_an_integer_dtype_are_not_judged(
    target: torch.dtype, x: list[float], known: list[bool]
) -> None:
    assert (bound_of(lambda x: x.to(target), torch.tensor(x)) == 0).tolist() == known


def test_an_uncertain_sign_as_an_unsigned_integer_may_wrap() -> None:
    x = torch.tensor([0.05, 0.3])
    bound = bound_of(lambda x: (codes(x).to(torch.int32) - 1).to(torch.uint8), x)
    assert bound.tolist() == [float("inf"), 0.0]


def test_the_bits_of_a_float_are_not_to_be_had() -> None:
    expected = follow(lambda x: x.view(torch.int32), torch.ones(3))
    assert expected.problem is not None
    assert "reads the bits" in expected.problem


def test_powers_of_two_are_exact() -> None:
    x = torch.tensor([0.3, 1.0, 6.0, -5.0])
    (mantissa, e), (exponent, doubt) = outputs_of(lambda x: tuple(torch.frexp(x)), x)
    assert torch.equal(torch.ldexp(mantissa, exponent), x.double())
    assert not bool(e.any())
    assert not bool(doubt.any())
    assert not bool(bound_of(lambda x: torch.ldexp(x, torch.frexp(x).exponent - 1), x).any())
    (_, e), (_, doubt) = outputs_of(lambda x: tuple(torch.frexp(x + 100.0 - 100.0)), x)
    assert (doubt > 0).tolist() == [False, True, False, False]
    assert e[1] == float("inf")
    assert bool((e[[0, 2, 3]] < 1e-4).all())
