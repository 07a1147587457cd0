"""Bounds of single ops against formulas worked out by hand with mpmath (ORACLE.md section 2.3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import pytest
import torch
from input_regimes import draw
from reference_cases import OMEGA_SMALL, U, bound_of
from torch.nn import functional

mpmath.mp.prec = 120
# No sum or product of these is a float32 number, so that rule 8 does not apply.
A = torch.tensor([1.1, -2.7, 0.3337, 1.7e-3, 77.77], dtype=torch.float32)
B = torch.tensor([3.3, 0.017, -0.0123, 513.7, 1.3e-2], dtype=torch.float32)


def growth(terms: int) -> float:
    return min(terms, 4 * math.sqrt(terms) + terms / 4) + 2


def assert_bounds(actual: torch.Tensor, expected: Sequence[Any]) -> None:
    expected = torch.tensor([float(e) for e in expected], dtype=torch.float64)
    torch.testing.assert_close(actual.flatten(), expected, rtol=1e-6, atol=1e-45)


def exact(x: torch.Tensor) -> list[Any]:
    return [mpmath.mpf(v) for v in x.double().flatten().tolist()]


def test_sums_lose_a_unit_of_the_largest_of_operands_and_result() -> None:
    expected = [
        U * max(abs(a), abs(b), abs(a + b)) + OMEGA_SMALL for a, b in zip(exact(A), exact(B), strict=True)
    ]
    assert_bounds(bound_of(torch.add, A, B), expected)
    expected = [
        U * max(abs(a), abs(b), abs(a - b)) + OMEGA_SMALL for a, b in zip(exact(A), exact(B), strict=True)
    ]
    assert_bounds(bound_of(torch.sub, A, B), expected)


def test_products_lose_a_unit() -> None:
    expected = [U * abs(a * b) + OMEGA_SMALL for a, b in zip(exact(A), exact(B), strict=True)]
    assert_bounds(bound_of(torch.mul, A, B), expected)


def test_errors_of_both_factors_propagate() -> None:
    def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a * b) * (a + b)

    expected = []
    for a, b in zip(exact(A), exact(B), strict=True):
        p, s = a * b, a + b
        e_p, e_s = U * abs(p) + OMEGA_SMALL, U * max(abs(a), abs(b), abs(s)) + OMEGA_SMALL
        expected.append(abs(p) * e_s + abs(s) * e_p + e_p * e_s + U * abs(p * s) + OMEGA_SMALL)
    assert_bounds(bound_of(reference, A, B), expected)


def test_quotients_lose_four_units_and_a_flushed_reciprocal() -> None:
    expected = [
        4 * U * abs(a / b) + OMEGA_SMALL * (1 + abs(a)) for a, b in zip(exact(A), exact(B), strict=True)
    ]
    assert_bounds(bound_of(torch.div, A, B), expected)


def test_the_error_of_a_divisor_is_taken_at_the_worst_end() -> None:
    expected = []
    for a, b in zip(exact(A), exact(B), strict=True):
        p = b * b
        e = U * p + OMEGA_SMALL
        worst = max(abs(a / (p - e) - a / p), abs(a / (p + e) - a / p))
        expected.append(worst + 4 * U * abs(a / p) + OMEGA_SMALL * (1 + abs(a)))
    assert_bounds(bound_of(lambda a, b: a / (b * b), A, B), expected)


def test_wide_divisors_are_bounded_to_the_second_order() -> None:
    """A divisor of 0.001 that may be 1.2e-4 off."""
    a, b = torch.tensor([3.7]), torch.tensor([1.003e-3])
    d, e = exact(b)[0], 2 * U * 1000  # up to the last digits of 1000.001
    expected = float(exact(a)[0] / (d - e) - exact(a)[0] / d)
    actual = bound_of(lambda a, b: a / ((b + 1000.0) - 1000.0), a, b).item()
    assert actual == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("name", ["sqrt", "rsqrt", "reciprocal"])
def test_roots_and_reciprocals_take_the_worst_end(name: str) -> None:
    function: Callable[[Any], Any] = {
        "sqrt": mpmath.sqrt,
        "rsqrt": lambda x: 1 / mpmath.sqrt(x),
        "reciprocal": lambda x: 1 / x,
    }[name]
    expected = []
    for a in exact(A):
        p = a * a
        e, v = U * p + OMEGA_SMALL, function(p)
        expected.append(max(abs(function(p - e) - v), abs(function(p + e) - v)) + 4 * U * v + OMEGA_SMALL)
    assert_bounds(bound_of(lambda a: getattr(torch, name)(a * a), A), expected)


def transcendental(function: Callable[[Any], Any], x: Any, scale: Any = 0, error: Any = 0) -> Any:
    """Two-sided over e + 2u|x|, then 16 u max(|f|, scale) + omega (1 + |x|) (rule 4)."""
    e, v = error + 2 * U * abs(x), function(x)
    worst = max(abs(function(x + e) - v), abs(function(x - e) - v))
    return worst + 16 * U * max(abs(v), scale) + OMEGA_SMALL * (1 + abs(x))


def mp_gelu(x: Any) -> Any:
    return x * mpmath.ncdf(x)


def mp_gelu_tanh(x: Any) -> Any:
    return x / 2 * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)))


TRANSCENDENTAL: dict[str, tuple[Callable[..., Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "exp": (torch.exp, mpmath.exp, lambda x: 0),
    "exp2": (torch.exp2, lambda x: mpmath.power(2, x), lambda x: 0),
    "silu": (functional.silu, lambda x: x / (1 + mpmath.exp(-x)), lambda x: 0),
    "erf": (torch.erf, mpmath.erf, lambda x: 1),
    "expm1": (torch.expm1, mpmath.expm1, lambda x: 1),
    "elu": (functional.elu, lambda x: x if x > 0 else mpmath.expm1(x), lambda x: 1),
    "softplus": (functional.softplus, lambda x: mpmath.log1p(mpmath.exp(x)), lambda x: 1),
    "gelu": (functional.gelu, mp_gelu, abs),
    "gelu_tanh": (lambda x: functional.gelu(x, approximate="tanh"), mp_gelu_tanh, abs),
    "mish": (functional.mish, lambda x: x * mpmath.tanh(mpmath.log1p(mpmath.exp(x))), abs),
    "log": (lambda x: torch.log(x.abs()), lambda x: mpmath.log(abs(x)), lambda x: 0),
}


@pytest.mark.parametrize("name", TRANSCENDENTAL)
def test_transcendental_functions_follow_rule_4(name: str) -> None:
    torch_function, function, scale = TRANSCENDENTAL[name]
    x = torch.tensor([0.7, -1.9, 4.4, -9.5, 1e-4], dtype=torch.float32)
    actual = bound_of(torch_function, x)
    # Beyond rule 4: below float64's own resolution, and softplus is the identity above 20.
    for got, value in zip(actual.tolist(), exact(x), strict=True):
        assert got == pytest.approx(float(transcendental(function, value, scale(value))), rel=1e-5)


@pytest.mark.parametrize("name", ["sigmoid", "tanh"])
def test_closed_forms_cover_the_two_sided_value_closely(name: str) -> None:
    function = {"sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)), "tanh": mpmath.tanh}[name]
    x = draw("uniform", (40,), 0)
    for got, value in zip(bound_of(getattr(torch, name), x).tolist(), exact(x), strict=True):
        two_sided = float(transcendental(function, value, int(name == "tanh")))
        assert two_sided * (1 - 1e-9) <= got <= two_sided * (1 + 1e-3)


def test_sine_and_cosine_are_bounded_by_the_argument_error() -> None:
    for function in (torch.sin, torch.cos):
        expected = [min(2 * U * abs(x), 2) + 16 * U + OMEGA_SMALL * (1 + abs(x)) for x in exact(A)]
        assert_bounds(bound_of(function, A), expected)


def test_argument_errors_propagate_through_exp() -> None:
    expected = []
    for a in exact(A[:3]):
        s, e = a * 3, U * abs(a * 3) + OMEGA_SMALL
        expected.append(transcendental(mpmath.exp, s, error=e))
    assert_bounds(bound_of(lambda a: torch.exp(a * 3), A[:3]), expected)


@pytest.mark.parametrize("terms", [1, 7, 64, 1000])
def test_matrix_products_lose_g_units_of_the_sum_of_magnitudes(terms: int) -> None:
    a, b = draw("normal", (3, terms), 0), draw("normal", (terms, 2), 1)
    sizes = a.double().abs() @ b.double().abs()
    units = growth(terms) if terms > 1 else 2  # one product is rounded or truncated (rule 8)
    expected = units * U * sizes + terms * OMEGA_SMALL
    torch.testing.assert_close(bound_of(torch.matmul, a, b), expected, rtol=1e-9, atol=0)


def test_matrix_products_propagate_both_operands() -> None:
    a, b = draw("normal", (3, 5), 0), draw("normal", (5, 4), 1)
    c, d = a.double() * 3, b.double() + 0.5
    e_c = U * c.abs() + OMEGA_SMALL
    e_d = U * torch.maximum(torch.maximum(b.double().abs(), d.abs()), torch.tensor(0.5)) + OMEGA_SMALL
    e_c, e_d = torch.where(c.float() == c, 0, e_c), torch.where(d.float() == d, 0, e_d)
    sizes = (c.abs() + e_c) @ (d.abs() + e_d)
    expected = c.abs() @ e_d + e_c @ d.abs() + e_c @ e_d + growth(5) * U * sizes + 5 * OMEGA_SMALL
    actual = bound_of(lambda a, b: (a * 3) @ (b + 0.5), a, b)
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=0)


def test_tf32_operands_lose_ten_bits_each() -> None:
    a, b = draw("normal", (3, 5), 0), draw("normal", (5, 4), 1)
    sizes = a.double().abs() @ b.double().abs()
    t = 2.0**-10
    expected = (2 * t + t * t + growth(5) * U * (1 + t) ** 2) * sizes + 5 * OMEGA_SMALL
    torch.testing.assert_close(bound_of(torch.matmul, a, b, profile="PT"), expected, rtol=1e-9, atol=0)


def test_computed_operands_may_be_stored_in_16_bits_under_p1() -> None:
    a, b = draw("normal", (3, 5), 0, torch.float16), draw("normal", (5, 4), 1, torch.float16)
    c = torch.exp(a.double())
    e_c = bound_of(torch.exp, a) + 2.0**-11 * c + 2.0**-25
    expected = e_c @ b.double().abs() + growth(5) * U * ((c + e_c) @ b.double().abs()) + 5 * OMEGA_SMALL
    actual = bound_of(lambda a, b: torch.exp(a) @ b, a, b, profile="P1")
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=0)


def test_raw_operands_are_not_rounded_under_p1() -> None:
    a, b = draw("normal", (5, 3), 0, torch.float16), draw("normal", (5, 4), 1, torch.float16)

    def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.relu(-a).mT @ torch.cat((b[:2], b[2:]))

    assert torch.equal(bound_of(reference, a, b, profile="P1"), bound_of(reference, a, b, profile="P0"))


def test_p2_rounds_everything_to_storage() -> None:
    a = draw("normal", (6,), 0, torch.float16)
    b = draw("normal", (6,), 1, torch.float16)
    v = a.double() * b.double()
    expected = torch.where(v.half().double() == v, 0, 2.0**-11 * v.abs() + 2.0**-14)
    torch.testing.assert_close(bound_of(torch.mul, a, b, profile="P2"), expected, rtol=1e-12, atol=0)


def test_sums_over_a_dim_lose_g_units_of_the_sum_of_magnitudes() -> None:
    x = draw("normal", (3, 50), 0)
    expected = growth(50) * U * x.double().abs().sum(-1) + 50 * OMEGA_SMALL
    torch.testing.assert_close(bound_of(lambda x: x.sum(-1), x), expected, rtol=1e-9, atol=0)


def test_means_lose_one_unit_more() -> None:
    x = draw("normal", (3, 50), 0)
    size, mean = x.double().abs().sum(-1), x.double().mean(-1).abs()
    expected = (growth(50) * U * size + 50 * OMEGA_SMALL) / 50 + U * mean
    torch.testing.assert_close(bound_of(lambda x: x.mean(-1), x), expected, rtol=1e-9, atol=0)


def test_softmax_follows_rule_6() -> None:
    x = draw("uniform", (3, 20), 0).double()
    y = torch.softmax(x, -1)
    e = 2 * U * x.abs()
    expected = y * torch.expm1(e + (y * e).sum(-1, keepdim=True)) + y * U * (growth(20) + 16) + 2 * OMEGA_SMALL
    actual = bound_of(lambda x: torch.softmax(x, -1), x.float())
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=0)


def test_log_softmax_and_log_sum_exp_follow_rule_6() -> None:
    x = draw("uniform", (3, 20), 0)
    wide = x.double()
    e, y, lse = 2 * U * wide.abs(), torch.softmax(wide, -1), torch.logsumexp(wide, -1, keepdim=True)
    row = torch.log1p((y * torch.expm1(e)).sum(-1, keepdim=True)) + U * (growth(20) + 16 + lse.abs())
    torch.testing.assert_close(bound_of(lambda x: torch.logsumexp(x, -1), x), row[:, 0], rtol=1e-9, atol=0)
    expected = e + row + U * torch.log_softmax(wide, -1).abs()
    torch.testing.assert_close(bound_of(lambda x: torch.log_softmax(x, -1), x), expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("regime", ["normal", "offset", "small", "constant"])
def test_the_closed_layer_norm_is_its_decomposition(regime: str) -> None:
    def decomposed(x: torch.Tensor) -> torch.Tensor:
        deviation = x - x.mean(-1, keepdim=True)
        return deviation * torch.rsqrt((deviation * deviation).mean(-1, keepdim=True) + 1e-5)

    x = draw(regime, (4, 30), 0)
    closed, expected = bound_of(lambda x: functional.layer_norm(x, (30,)), x), bound_of(decomposed, x)
    # The closed form takes |d| + |mean| for max(|x|, |mean|, |d|) in one of 30 roundings.
    torch.testing.assert_close(closed, expected, rtol=2e-2, atol=1e-30)
    assert bool((closed >= expected * (1.0 - 1e-3)).all())


def test_the_closed_layer_norm_scales_and_shifts() -> None:
    x = draw("normal", (4, 30), 0)
    w, b = draw("uniform", (30,), 1), draw("normal", (30,), 2)
    for profile in ("P0", "P2"):
        closed = bound_of(lambda x, w, b: functional.layer_norm(x, (30,), w, b), x, w, b, profile=profile)
        separate = bound_of(lambda x, w, b: functional.layer_norm(x, (30,)) * w + b, x, w, b, profile=profile)
        assert bool((closed >= separate * (1.0 - 1e-9)).all())
        assert bool((closed <= separate * 1.2).all())


def test_the_closed_layer_norm_keeps_second_order_terms() -> None:
    def decomposed(x: torch.Tensor) -> torch.Tensor:
        deviation = x - x.mean(-1, keepdim=True)
        return deviation * torch.rsqrt((deviation * deviation).mean(-1, keepdim=True) + 1e-5)

    x = draw("normal", (4, 30), 0, torch.float16) + 10  # e_d is a tenth of the deviations
    closed = bound_of(lambda x: functional.layer_norm(x, (30,)), x, profile="P2")
    torch.testing.assert_close(closed, bound_of(decomposed, x, profile="P2"), rtol=1e-2, atol=0)


def test_constants_carry_their_float32_rounding() -> None:
    x = draw("normal", (5,), 0)
    off = abs(float(torch.tensor(0.1, dtype=torch.float32)) - 0.1)
    expected = x.double().abs() * off + U * (x.double() * 0.1).abs() + OMEGA_SMALL
    torch.testing.assert_close(bound_of(lambda x: x * 0.1, x), expected, rtol=1e-9, atol=0)
    assert bool((bound_of(lambda x: x * 0.5, x) == 0).all())


def test_cumulative_sums_lose_g_units() -> None:
    x = draw("normal", (3, 9), 0)
    expected = growth(9) * U * x.double().abs().cumsum(-1) + 9 * OMEGA_SMALL
    torch.testing.assert_close(bound_of(lambda x: x.cumsum(-1), x), expected, rtol=1e-9, atol=0)
