"""Products over dims against mpmath and against every order of multiplication."""

from __future__ import annotations

import math

import mpmath
import pytest
import torch
from input_regimes import ALL, draw
from reference_cases import OMEGA_SMALL, U, assert_accepted, bound_of, follow, outputs_of

mpmath.mp.prec = 200


def test_products_lose_n_plus_2_units() -> None:
    x = draw("normal", (4, 6), 0)
    expected = [8 * U * abs(mpmath.fprod(row)) for row in x.double().tolist()]
    torch.testing.assert_close(
        bound_of(lambda x: x.prod(-1), x).tolist(), [float(e) for e in expected], rtol=1e-5, atol=0
    )


def test_relative_errors_of_the_factors_add_up() -> None:
    x = draw("normal", (4, 6), 0)
    expected = []
    for row in x.double().tolist():
        squares = [mpmath.mpf(v) ** 2 for v in row]
        spread = mpmath.fprod(1 + (U * s + OMEGA_SMALL) / s for s in squares) * (1 + 8 * U) - 1
        expected.append(float(spread * mpmath.fprod(squares)))
    bound = bound_of(lambda x: (x * x).prod(-1), x)
    torch.testing.assert_close(bound.tolist(), expected, rtol=1e-5, atol=0)


def test_an_exact_zero_makes_an_exact_product() -> None:
    assert bound_of(lambda x: x.prod(), torch.tensor([1.7, 0.0, 3.3])).item() == 0.0


def test_an_uncertain_zero_may_lose_all_that_the_rest_reaches() -> None:
    """(1.1 + 3) - 4.1 in float64 is near 0 and about u 4.1 uncertain; times 2.3 and 3.7."""
    x = torch.tensor([1.0, 2.3, 3.7])

    def reference(x: torch.Tensor) -> torch.Tensor:
        near_zero = (x[:1] * 0.1 + 1.0) - 1.1
        return torch.cat((near_zero, x[1:])).prod()

    ((value, bound),) = outputs_of(reference, x)
    rest = mpmath.fprod(x.double()[1:].tolist())
    assert abs(value.item()) < 1e-6
    assert bound.item() >= 0.5 * 1.1 * U * rest
    assert bound.item() <= 8 * 1.1 * U * rest
    in_float32 = ((x[:1] * torch.tensor(0.1) + 1.0) - torch.tensor(1.1))[0] * x[1] * x[2]
    assert_accepted(in_float32, value, bound, "float32")


@pytest.mark.parametrize(
    "row", [[1e30, 1e30, 1e-40], [1e-30, 1e-30, 1e30], [0.0, 1e30, 1e30], [math.inf, 1e30, 1e30, 1e-30]]
)
def test_every_order_of_multiplication_is_accepted(row: list[float]) -> None:
    x = torch.tensor(row)
    ((value, bound),) = outputs_of(lambda x: x.prod(), x)
    for first in range(len(row)):
        ordered = torch.cat((x[first:], x[:first]))
        for factors in (ordered, ordered.flip(0)):
            total = factors[0]
            for factor in factors[1:]:
                total = total * factor
            assert_accepted(total, value, bound, "float32")


def test_a_flushed_partial_product_is_permitted_but_not_where_none_is_small() -> None:
    ((value, bound),) = outputs_of(lambda x: x.prod(), torch.tensor([1e-30, 1e-30, 1e28]))
    assert bound.item() >= value.item()
    assert bound_of(lambda x: x.prod(), torch.tensor([1e-10, 1e-10, 1e18])).item() < 1e-2 * 6 * U


def test_unknown_factors_make_unknown_products_of_their_row_only() -> None:
    bound = bound_of(lambda x: (x * x).prod(-1), torch.tensor([[1e30, 1.0], [1.0, 1.1]]))
    assert bound.isinf().tolist() == [True, False]


def test_nan_and_infinities_carry_no_error() -> None:
    x = torch.tensor([[math.nan, 2.0], [math.inf, 2.0], [math.inf, 0.0]])
    ((value, bound),) = outputs_of(lambda x: x.prod(-1), x)
    assert value.isnan().tolist() == [True, False, True]
    assert bound.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("regime", ALL)
@pytest.mark.parametrize("profile", ["P0", "P2"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_pairwise_and_sequential_products_are_accepted(regime: str, profile: str, dtype: str) -> None:
    x = draw(regime, (16, 64), 0, getattr(torch, dtype))
    ((value, bound),) = outputs_of(lambda x: (x * 1.5).prod(-1), x, profile=profile)
    scaled = x * 1.5 if profile == "P2" else x.float() * 1.5
    sequential, pairwise = scaled[:, 0], scaled
    for i in range(1, 64):
        sequential = sequential * scaled[:, i]
    while pairwise.shape[1] > 1:
        pairwise = pairwise[:, ::2] * pairwise[:, 1::2]
    for result in (sequential, pairwise[:, 0]):
        assert_accepted(result.to(x.dtype), value, bound, dtype)


def test_dims_integers_and_no_factors() -> None:
    x, i = torch.rand(2, 3, 4), torch.tensor([[2, 3], [4, 5]])
    expected = follow(lambda x, i: (x.prod(1, keepdim=True), x.prod(), i.prod(), x[:0].prod(0)), x, i)
    assert expected.generic == ()
    assert [tuple(o.bound.shape) for o in expected.outputs] == [(2, 1, 4), (), (), (3, 4)]
    assert expected.outputs[2].value.item() == 120
    assert bool((expected.outputs[3].value == 1).all() & (expected.outputs[3].bound == 0).all())
