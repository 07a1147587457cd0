"""Rule 8: what every order and blocking computes exactly is compared bit by bit."""

from __future__ import annotations

import pytest
import torch
from input_regimes import draw
from reference_cases import OMEGA_SMALL, U, assert_accepted, bound_of, is_rejected, outputs_of
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


def permutation(size: int, seed: int = 0) -> torch.Tensor:
    return torch.eye(size)[torch.randperm(size, generator=torch.Generator().manual_seed(seed))]


ONE_PRODUCT = {
    "identity": torch.eye(40),
    "permutation": permutation(40),
    "some rows": torch.cat((torch.eye(40)[3:7], torch.zeros(2, 40))),
    "powers of two": torch.diag(2.0 ** (torch.arange(-20, 20) // 2)),
}


@pytest.mark.parametrize("name", ONE_PRODUCT)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_one_product_per_element_is_exact_from_either_side(name: str, dtype: str) -> None:
    """Every order of adding zeros to one representable product gives that product."""
    a, b = ONE_PRODUCT[name].to(getattr(torch, dtype)), draw("normal", (40, 40), 0, getattr(torch, dtype))
    for product in (torch.matmul, lambda a, b: torch.bmm(a[None], b[None]), lambda a, b: torch.mv(a, b[:, 0])):
        assert is_exact(bound_of(product, a, b))
        assert is_exact(bound_of(product, a, b.flip(0)))
    assert is_exact(bound_of(lambda a, b: b.T @ a.T, a, b))
    assert is_exact(bound_of(lambda a, b: torch.dot(a[0], b[0]), a, b))
    assert is_exact(bound_of(lambda a, b: torch.addmm(torch.zeros_like(b)[: len(a)], a, b), a, b))


def test_two_products_per_element_and_windows_are_not_exact() -> None:
    b = draw("normal", (40, 40), 0)
    a = torch.eye(40)
    a[17, 30] = 1.0
    both = b.double().abs()[17] + b.double().abs()[30]
    assert bool((bound_of(torch.matmul, a, b)[17] >= 37 * U * both).all())
    assert bool((bound_of(lambda a, b: b.T @ a.T, a, b)[:, 17] >= 37 * U * both).all())
    kernel = torch.zeros(1, 1, 3, 3)
    kernel[0, 0, 1, 1] = 1.0
    # Winograd's algorithm adds neighbours and takes them away again.
    assert not is_exact(bound_of(lambda k, b: functional.conv2d(b[None, None], k), kernel, b))


def test_one_product_that_needs_a_rounding_may_be_truncated_but_no_more() -> None:
    a, b = torch.diag(draw("normal", (40,), 1)), draw("normal", (40, 40), 0)
    ((value, bound),) = outputs_of(torch.matmul, a, b)
    product = (a.double() @ b.double()).abs()
    exact = product.float().double() == product
    assert not bool(exact.all())
    torch.testing.assert_close(bound, torch.where(exact, 0.0, 2 * U * product + OMEGA_SMALL))
    assert_accepted(a @ b, value, bound, "float32")
    truncated = (a.double() @ b.double()).view(torch.int64).bitwise_and(~((1 << 29) - 1)).view(torch.float64)
    assert_accepted(truncated.float(), value, bound, "float32")
    assert is_rejected(truncated.float() * (1 - 2.0**-21), value, bound, "float32")


def test_an_identity_tells_tf32_and_bfloat16_operands() -> None:
    a, b = permutation(40), draw("normal", (40, 40), 0)
    ((value, bound),) = outputs_of(torch.matmul, a, b)
    assert_accepted(a @ b, value, bound, "float32")
    tf32 = (b.view(torch.int32) & ~((1 << 13) - 1)).view(torch.float32)
    for narrow in (tf32, b.bfloat16().float(), (b.view(torch.int32) & ~1).view(torch.float32)):
        assert is_rejected(a @ narrow, value, bound, "float32")
    ((value, bound),) = outputs_of(torch.matmul, a, b, profile="PT")
    assert_accepted(a @ tf32, value, bound, "float32")


def test_errors_of_one_operand_pass_through_the_other() -> None:
    """Under P1 computed operands may be rounded to storage: by 2^-11, and no rounding of a sum beside it."""
    a, b = permutation(40).half(), draw("normal", (40, 40), 0, torch.float16)
    error = bound_of(lambda a, b: b * 1.1, a, b)
    bound = bound_of(lambda a, b: a @ (b * 1.1), a, b)
    size = a.double() @ (b.double() * 1.1).abs()
    assert bool((bound >= a.double() @ error).all())
    assert bool((bound <= a.double() @ error + 2.1 * U * size + 2 * OMEGA_SMALL).all())
    # An uncertain zero is no zero: 37 roundings of a sum of 40.
    assert bool((bound_of(lambda a, b: (a * 1.1) @ b, a, b) >= 37 * U * size).all())
    assert bool((bound_of(lambda a, b: b.T @ (a.T * 1.1), a, b) >= 37 * U * size.T).all())


def test_one_product_may_be_flushed_or_overflow() -> None:
    a, b = torch.eye(20) * 2.0**-100, torch.full((20, 20), 2.0**-40)
    assert bool((bound_of(torch.matmul, a, b) >= 2.0**-140).all())
    assert bool(bound_of(torch.matmul, torch.eye(20) * 1e30, torch.full((20, 20), 1e30)).isinf().all())


@pytest.mark.parametrize("profile", ["P2", "P8"])
def test_one_product_is_as_exact_as_the_accumulator(profile: str) -> None:
    a, b = torch.diag(draw("normal", (8,), 1, torch.float16)), draw("normal", (8, 8), 0, torch.float16)
    bound = bound_of(torch.matmul, a, b, profile=profile)
    bits = 11 if profile == "P2" else 13
    product = (a.double() @ b.double()).abs()
    mantissa = torch.frexp(product).mantissa * 2.0**bits
    assert torch.equal(
        (bound > 0), (mantissa != mantissa.round()) | ((product < 2.0**-14) & (product > 0) & (bits == 11))
    )
    assert is_exact(
        bound_of(torch.matmul, torch.eye(8, dtype=torch.float16), b.clamp(min=0.01), profile=profile)
    )


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
