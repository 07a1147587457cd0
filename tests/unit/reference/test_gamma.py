"""psi and its derivatives against mpmath and against float32 kernels of the textbook formulas."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from reference_cases import U, assert_accepted, follow, is_rejected, outputs_of

POSITIVE = [1e-30, 1e-3, 0.3, 0.5, 1.0, 1.4616321, 1.4616323, 2.0, 3.7, 9.99, 10.0, 17.5, 1e3, 1e5, 1e8, 1e30]
NEGATIVE = [-1e-30, -1e-3, -0.3, -0.504083, -0.5, -1.5, -1.5734984, -3.7, -7.9999, -100.3, -12345.6]
# Bernoulli's numbers B_2k / (2k), of the series log x - 1/(2x) - sum B_2k / (2k x^2k).
BERNOULLI = [1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132]
F = np.float32


def in_float32(x: float) -> Any:
    """psi by reflection, recurrence up to 10 and five terms of the asymptotic series, in float32 throughout."""
    x = F(x)
    reflected = F(0)
    if x < 0:
        reflected = F(math.pi) / F(np.tan(F(math.pi) * F(np.fmod(x, F(1)))))
        x = F(1) - x
    total = F(0)
    while x < 10:
        total -= F(1) / x
        x = x + F(1)
    inverse = F(1) / (x * x) if x < 1e15 else F(0)
    series = F(0)
    for coefficient in reversed(BERNOULLI):
        series = (series + F(coefficient)) * inverse
    return F(np.log(x)) - F(0.5) / x - series + total - reflected


@pytest.mark.parametrize("points", [POSITIVE, NEGATIVE, POSITIVE + NEGATIVE])
def test_psi_is_judged_and_float32_kernels_are_accepted(points: list[float]) -> None:
    x = torch.tensor(points)
    assert follow(torch.digamma, x).generic == ()
    ((value, bound),) = outputs_of(torch.digamma, x)
    for number, y, b in zip(x.tolist(), value.tolist(), bound.tolist(), strict=True):
        with mpmath.workdps(60):
            truth = mpmath.digamma(mpmath.mpf(number))
            slope = mpmath.polygamma(1, mpmath.mpf(number))
        assert abs(y - truth) <= 1e-12 * max(1.0, abs(truth)) * max(1.0, abs(number))
        scale = max(8.0, abs(float(truth))) + 2 * math.log1p(abs(number))
        assert b >= 16 * U * max(1.0, abs(truth))
        assert b <= 16 * U * scale + 2.5 * U * abs(number) * float(slope) + 1e-30
    kernel = torch.tensor([float(in_float32(number)) for number in x.tolist()])
    assert_accepted(kernel, value, bound, "float32")
    assert_accepted(torch.digamma(x), value, bound, "float32")
    assert is_rejected(kernel * (1 + 2.0**-15), value, bound, "float32")
    assert is_rejected(torch.digamma(x.bfloat16().float()), value, bound, "float32")


def test_at_a_pole_psi_is_what_it_is_and_beside_one_unknown() -> None:
    x = torch.tensor([0.0, -1.0, -5.0, math.nan, math.inf, -(2.0**20) - 0.25, 2.0])
    ((value, bound),) = outputs_of(torch.digamma, x)
    assert bound[[0, 1, 2, 3, 4]].tolist() == [0.0] * 5
    assert value[0] == -math.inf
    assert bool(value[[1, 2, 3]].isnan().all())
    assert value[4] == math.inf
    assert bool(bound[5:].isfinite().all())
    ((_, bound),) = outputs_of(lambda x: torch.digamma(x * 1.1), torch.tensor([-10.0 / 11.0, -2.0, 1.0, 0.0]))
    assert bound[0] == math.inf
    assert bool(bound[1:3].isfinite().all())
    ((_, bound),) = outputs_of(lambda x: torch.digamma((x + 1000.3) - 1000.3), torch.tensor([1e-5, 1.0]))
    assert bound.isinf().tolist() == [True, False]


@pytest.mark.parametrize("order", [0, 1, 2, 3, 7])
def test_derivatives_of_psi_above_0(order: int) -> None:
    x = torch.tensor([1e-3, 0.3, 1.0, 2.0, 3.7, 10.0, 17.5, 1e3, 1e4])

    def reference(x: torch.Tensor) -> torch.Tensor:
        return torch.polygamma(order, x)

    assert follow(reference, x).generic == ()
    ((value, bound),) = outputs_of(reference, x)
    for number, y in zip(x.tolist(), value.tolist(), strict=True):
        with mpmath.workdps(60):
            truth = mpmath.polygamma(order, mpmath.mpf(number))
        assert abs(y - truth) <= 1e-12 * max(1.0 if order == 0 else 0.0, abs(truth))
    assert_accepted(torch.polygamma(order, x), value, bound, "float32")
    if order:
        assert_accepted(_by_powers(order, x.numpy()), value, bound, "float32")
        exponents = (order + 1) * (x.double().log().abs() + 3.0)
        assert bool(
            (bound <= value.abs() * U * (16.5 + 5 * exponents) + 32 * math.factorial(order) * 2.0**-126).all()
        )
    assert is_rejected(torch.polygamma(order, x) * (1 + 2.0**-10), value, bound, "float32")


def _by_powers(order: int, x: Any) -> torch.Tensor:
    """n! sum (x + i)^-(n + 1) for 32 terms, by exp2 and log2, and Euler-Maclaurin for the tail, in float32."""
    power = F(order + 1)
    total = np.zeros_like(x)
    for i in range(32):
        total = total + np.exp2(-power * np.log2(x + F(i)))
    end = x + F(32)
    last = np.exp2(-power * np.log2(end))
    total = total + last * end / F(order) + last * F(0.5) + last * power / (F(12) * end)
    return torch.from_numpy(total * F(math.factorial(order))) * (-1 if order % 2 == 0 else 1)


def test_derivatives_of_psi_at_and_below_0_stay_generic() -> None:
    x = torch.tensor([-0.5, 1.0])
    assert follow(lambda x: torch.polygamma(1, x), x).generic == ("polygamma",)
    assert follow(lambda x: torch.polygamma(0, x), x).generic == ()


def test_powers_may_be_flushed_before_the_factorial_scales_them() -> None:
    """10! x^-11 is a normal number at 3200, where x^-11 and 31 more powers are not."""
    x = torch.tensor([3200.0])
    ((value, bound),) = outputs_of(lambda x: torch.polygamma(10, x), x)
    with mpmath.workdps(60):
        powers = [(mpmath.mpf(3200) + i) ** -11 for i in range(32)]
    assert max(powers) < 2.0**-126
    flushed = value + float(math.factorial(10) * mpmath.fsum(powers))  # of negative terms
    assert_accepted(flushed.float(), value, bound, "float32")
