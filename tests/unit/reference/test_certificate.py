"""Rule 8: what every order and blocking computes exactly is compared bit by bit."""

from __future__ import annotations

import pytest
import torch
from input_regimes import draw
from reference_cases import bound_of
from torch.nn import functional


def integers(*shape: int, seed: int = 0, largest: int = 4) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-largest, largest + 1, shape, generator=generator).float()


def is_exact(bound: torch.Tensor) -> bool:
    return bool((bound == 0).all())


def test_integer_products_and_sums_are_exact() -> None:
    a, b = integers(5, 300), integers(300, 4, seed=1)
    assert is_exact(bound_of(torch.matmul, a, b))
    assert is_exact(bound_of(lambda a: a.sum(-1), a))
    assert is_exact(bound_of(lambda a: (a * a).sum(), a))
    assert is_exact(bound_of(lambda a: a.cumsum(-1), a))
    assert is_exact(bound_of(lambda a, b: (a + 1) @ (b - 3) + a[:, :4], a, b))


def test_the_quantum_need_not_be_one() -> None:
    a, b = integers(5, 40) * 2.0**-30, integers(40, 3, seed=1) * 2.0**17
    assert is_exact(bound_of(torch.matmul, a, b))


@pytest.mark.parametrize(("terms", "exact"), [(2048, True), (2049, False)])
def test_sums_are_exact_up_to_half_the_significand(terms: int, exact: bool) -> None:
    """1 + (K - 1) 64^2 <= 2^23 holds up to K = 2048."""
    row = torch.full((1, terms), 64.0)
    row[0, 0] = 1.0
    assert is_exact(bound_of(torch.matmul, row, row.T.contiguous())) == exact


def test_small_sums_are_exact_beside_large_ones() -> None:
    rows = torch.ones(2, 4096)
    rows[1] = 64.0
    column = rows[1:].T.contiguous()
    column[0] = 1.0
    assert (bound_of(torch.matmul, rows, column)[:, 0] == 0).tolist() == [True, False]
    assert (bound_of(lambda x: (x * x).cumsum(-1), rows)[1, ::2047] == 0).tolist() == [True, True, False]
    rows[1] = 4096.0
    assert (bound_of(lambda x: x.sum(-1), rows) == 0).tolist() == [True, False]


@pytest.mark.parametrize(("terms", "exact"), [(2**10, True), (2**10 + 1, False)])
def test_the_limit_is_that_of_16_bits_under_p2(terms: int, exact: bool) -> None:
    ones = torch.ones((1, terms), dtype=torch.float16)
    assert is_exact(bound_of(lambda x: x.sum(-1), ones, profile="P2")) == exact


def test_real_operands_are_not_exact() -> None:
    a, b = draw("normal", (4, 8), 0), draw("normal", (8, 4), 1)
    assert bool((bound_of(torch.matmul, a, b) > 0).all())
    assert bool((bound_of(lambda a: a.sum(-1), a) > 0).all())


def test_identities_are_exact_only_where_the_sums_are() -> None:
    """An identity matrix times full significands is exact in every order, yet not certified."""
    b = draw("normal", (8, 8), 0)
    bound = bound_of(torch.matmul, torch.eye(8), b)
    assert bool((bound < 1e-5).all())
    zero_row = torch.eye(8)
    zero_row[3] = 0.0
    assert is_exact(bound_of(torch.matmul, zero_row, b)[3])


def test_representable_products_are_exact_element_by_element() -> None:
    a = torch.tensor([3.0, 1.1, 0.0, 2.0**-100, 2.0**-70])
    b = torch.tensor([5.0, 1.1, 7.7, 2.0**-20, 2.0**-70])
    assert (bound_of(torch.mul, a, b) == 0).tolist() == [True, False, True, True, False]


def test_products_of_16_bit_numbers_are_exact_in_float32() -> None:
    a = draw("normal", (50,), 0, torch.float16)
    assert is_exact(bound_of(torch.square, a))
    assert not is_exact(bound_of(torch.square, a, profile="P2"))


def test_flushed_results_are_not_exact() -> None:
    """2^-130 is a float32 number, but a kernel may flush it to zero."""
    bound = bound_of(torch.mul, torch.tensor([2.0**-65]), torch.tensor([2.0**-65]))
    assert bound.item() >= 2.0**-130


def test_means_and_variances_are_never_exact() -> None:
    x = integers(3, 8)
    assert not is_exact(bound_of(lambda x: x.mean(-1), x))
    assert not is_exact(bound_of(lambda x: x.var(-1), x))
    assert not is_exact(bound_of(lambda x: functional.layer_norm(x, (8,)), x))


def test_operands_with_errors_are_not_exact() -> None:
    x = integers(3, 8)
    assert bool((bound_of(lambda x: (x * 0.1).sum(-1), x) > 0).any())


def test_exact_computed_operands_need_no_rounding_under_p1() -> None:
    x = integers(4, 8).half()
    assert is_exact(bound_of(lambda x: (x * 2) @ x.T, x, profile="P1"))
    # 2049 is no float16 number.
    assert not is_exact(bound_of(lambda x: (x * 0 + 2049) @ x.T, x, profile="P1"))


def test_the_references_own_evaluation_is_not_certified() -> None:
    x = draw("normal", (3,), 0)
    assert bool((bound_of(lambda x: x * x, x, unit_roundoff=2.0**-53) > 0).all())


def test_movement_and_selection_are_exact() -> None:
    x = draw("mixed", (4, 8), 0)
    for reference in (
        torch.relu,
        torch.abs,
        torch.neg,
        torch.sign,
        lambda x: x.T.flip(0),
        lambda x: x.amax(-1),
    ):
        assert is_exact(bound_of(reference, x))


def test_leaky_relu_is_exact_for_positive_numbers() -> None:
    x = draw("normal", (50,), 0)
    bound = bound_of(functional.leaky_relu, x)
    assert torch.equal(bound == 0, x > 0)
