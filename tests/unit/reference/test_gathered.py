"""Means over windows and additions at indices against formulas and legitimate kernels (rule 6)."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from input_regimes import ALL, draw
from reference_cases import OMEGA_SMALL, U, assert_accepted, bound_of, follow, is_rejected, outputs_of
from torch.nn import functional


def growth(terms: int) -> float:
    return min(terms, 4 * math.sqrt(terms) + terms / 4) + 2


def test_window_means_are_means() -> None:
    x = draw("normal", (1, 2, 12), 0)
    windows = x.double().reshape(1, 2, 4, 3)
    sums, mean = windows.abs().sum(-1), windows.mean(-1).abs()
    expected = (growth(3) * U * sums + 3 * OMEGA_SMALL) / 3 + U * mean
    actual = bound_of(lambda x: functional.avg_pool1d(x, 3), x)
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=3 * OMEGA_SMALL)


def test_errors_of_a_window_are_averaged_with_the_padding_counted_or_not() -> None:
    x = torch.full((1, 1, 4, 4), 1.1)
    error = 2.0**-24 * 1001.1  # of x + 1000
    for counted, share in ((True, 4 / 9), (False, 1.0)):
        bound = bound_of(
            lambda x, c=counted: functional.avg_pool2d((x + 1000.0), 3, 1, 1, count_include_pad=c), x
        )
        assert bound[0, 0, 0, 0].item() == pytest.approx(error * share + 12 * U * 1001.1 * share, rel=1e-3)


POOLS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "avg_pool1d": (lambda x: functional.avg_pool1d(x, 4, 3, 1), (2, 3, 30)),
    "avg_pool2d": (lambda x: functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True), (2, 3, 9, 9)),
    "avg_pool2d_divisor": (lambda x: functional.avg_pool2d(x, (2, 3), divisor_override=5), (2, 3, 9, 9)),
    "avg_pool2d_ragged": (lambda x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (2, 3, 9, 9)),
    "avg_pool3d": (lambda x: functional.avg_pool3d(x, 2), (1, 2, 4, 4, 4)),
}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("regime", ALL)
def test_native_window_means_are_accepted(name: str, regime: str) -> None:
    pool, shape = POOLS[name]
    x = draw(regime, shape, 0)
    assert follow(pool, x).generic == ()
    ((value, bound),) = outputs_of(pool, x)
    assert_accepted(pool(x), value, bound, "float32")
    if regime == "normal":
        assert bool((bound < 1e-5).all())


def test_windows_with_an_infinity_or_overflow() -> None:
    x = torch.tensor([[[math.inf, 1.0, 2e38, 2e38, 1.1, 1.2]]])
    ((value, bound),) = outputs_of(lambda x: functional.avg_pool1d(x, 2), x)
    assert value[0, 0, 0].item() == math.inf
    assert bound[0, 0, 0].item() == 0.0
    assert bound[0, 0, 1].item() == math.inf
    assert bound[0, 0, 2].item() < 1e-6


INDEX = torch.tensor([0, 2, 2, 2, 0, 3])
ADDITIONS: dict[str, Any] = {
    "index_add": lambda t, x, i: t.index_add(0, i, x),
    "index_add_in_place": lambda t, x, i: t.clone().index_add_(0, i, x),
    "scatter_add": lambda t, x, i: t.scatter_add(0, i[:, None].expand_as(x), x),
    "index_put": lambda t, x, i: t.index_put((i,), x, accumulate=True),
    "index_put_in_place": lambda t, x, i: t.clone().index_put_((i,), x, accumulate=True),
}


@pytest.mark.parametrize("name", ADDITIONS)
def test_additions_at_indices_are_sums_of_the_largest_count(name: str) -> None:
    t, x = draw("normal", (5, 3), 0), draw("normal", (6, 3), 1)
    size = t.double().abs().index_add(0, INDEX, x.double().abs())
    expected = growth(4) * U * size + 4 * OMEGA_SMALL
    expected[[1, 4]] = 0.0  # nothing is added there
    assert follow(ADDITIONS[name], t, x, INDEX).generic == ()
    torch.testing.assert_close(bound_of(ADDITIONS[name], t, x, INDEX), expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("name", ADDITIONS)
@pytest.mark.parametrize("regime", ALL)
def test_additions_in_any_order_are_accepted(name: str, regime: str) -> None:
    t, x = draw(regime, (5, 3), 0), draw(regime, (6, 3), 1)
    ((value, bound),) = outputs_of(lambda t, x, i: ADDITIONS[name](t * 1.1, x * 0.7, i), t, x, INDEX)
    for order in (torch.arange(6), torch.arange(6).flip(0)):
        actual = torch.zeros(5, 3).index_add(0, INDEX[order], (x * 0.7)[order]) + t * 1.1
        assert_accepted(actual, value, bound, "float32")


def test_whole_numbers_add_up_exactly() -> None:
    t, x = draw("integers", (5, 3), 0), draw("integers", (6, 3), 1)
    for reference in ADDITIONS.values():
        assert bool((bound_of(reference, t, x, INDEX) == 0).all())


def test_an_unknown_term_and_an_infinity_stay_where_they_are_added() -> None:
    t, x = torch.ones(5, 1), torch.tensor([[1.1], [1e30], [1.0], [1.0], [2.0], [math.inf]])
    ((value, bound),) = outputs_of(lambda t, x, i: t.index_add(0, i, x * x), t, x, INDEX)
    assert bound[:, 0].isinf().tolist() == [False, False, True, False, False]
    assert value[3, 0].item() == math.inf
    assert bound[3, 0].item() == 0.0


def test_a_factor_scales_what_is_added() -> None:
    t, x = torch.ones(5, 3), draw("normal", (6, 3), 1)
    scaled, plain = (
        follow(lambda t, x, i, f=f, a=a: t.index_add(0, i, x * f, alpha=a), t, x, INDEX)
        for f, a in ((1, 2), (2, 1))
    )
    assert scaled.generic == ()
    assert torch.equal(scaled.outputs[0].value, plain.outputs[0].value)
    torch.testing.assert_close(scaled.outputs[0].bound, plain.outputs[0].bound)


def test_overwriting_at_indices_is_exact() -> None:
    t, x = torch.ones(5, 3), draw("normal", (6, 3), 1)
    expected = follow(lambda t, x, i: t.index_put((i[:2],), x[:2]), t, x, INDEX)
    assert expected.generic == ()
    assert bool((expected.outputs[0].bound == 0).all())


ORDERS = ((0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1))


@pytest.mark.parametrize(
    "factors",
    [(1e30, 1e30, 1e-30), (1e-30, 1e-30, 1e30), (1e-25, 1e-25, 1e20), (0.0, 1e30, 1e30), (1.5, 2.5, 3.5)],
)
@pytest.mark.parametrize("through", ["scatter_reduce", "index_reduce"])
def test_products_at_an_index_are_accepted_in_every_order(factors: tuple[float, ...], through: str) -> None:
    """Partial products may overflow, or be flushed to 0, whatever the whole product is."""
    target, source, index = torch.tensor([1.25, 3.0]), torch.tensor(factors), torch.tensor([0, 0, 0])

    def reference(target: torch.Tensor, source: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        if through == "index_reduce":
            return target.index_reduce(0, index, source, "prod")
        return target.scatter_reduce(0, index, source, "prod")

    ((value, bound),) = outputs_of(reference, target, source, index)
    assert value[0].item() == pytest.approx(1.25 * math.prod(source.double().tolist()), rel=1e-12)
    assert (value[1].item(), bound[1].item()) == (3.0, 0.0)
    smallest = torch.finfo(torch.float32).smallest_normal
    for order in ORDERS:
        total, flushed = target[0], target[0]
        for i in order:
            total, flushed = total * source[i], flushed * source[i]
            flushed = torch.where(flushed.abs() < smallest, 0.0, flushed)
        for result in (total, flushed):
            assert_accepted(torch.stack((result, target[1])), value, bound, "float32")
    if factors == (1.5, 2.5, 3.5):
        assert bound[0].item() <= 7 * U * value[0].item()


def test_a_product_without_its_target_does_not_count_it() -> None:
    target, source, index = torch.tensor([1e30]), torch.tensor([1e30, 2.0]), torch.tensor([0, 0])
    for included, known in ((False, True), (True, False)):
        ((_, bound),) = outputs_of(
            lambda t, s, i, own=included: t.scatter_reduce(0, i, s, "prod", include_self=own),
            target,
            source,
            index,
        )
        assert bool(bound.isfinite().all()) == known


def test_a_mean_at_an_index_may_be_flushed() -> None:
    target, source, index = torch.tensor([0.0]), torch.tensor([1.5e-38, 0.0]), torch.tensor([0, 0])

    def reference(target: torch.Tensor, source: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return target.scatter_reduce(0, index, source, "mean", include_self=False)

    ((value, bound),) = outputs_of(reference, target, source, index)
    assert 0.0 < value.item() < OMEGA_SMALL  # the sum is a normal number, the mean is not
    assert bound.item() >= value.item()


@pytest.mark.parametrize("size", [(2, 3), (1, 4), (5, 5)])
def test_it_is_the_sum_of_an_adaptive_window_that_overflows(size: tuple[int, int]) -> None:
    def pool(x: torch.Tensor) -> torch.Tensor:
        return functional.adaptive_avg_pool2d(x, size)

    def sums(x: torch.Tensor) -> torch.Tensor:
        rows = [(i * 7 // size[0], -(-(i + 1) * 7 // size[0])) for i in range(size[0])]
        columns = [(i * 9 // size[1], -(-(i + 1) * 9 // size[1])) for i in range(size[1])]
        return torch.stack(
            [torch.stack([x[..., a:b, c:d].sum((-2, -1)) for c, d in columns], -1) for a, b in rows], -2
        )

    x = draw("normal", (2, 3, 7, 9), 0).abs()
    x = (x.double() * (torch.finfo(torch.float32).max / sums(x.double()).mean())).float()
    ((value, bound),) = outputs_of(pool, x)
    total = sums(x.double())
    assert bool((bound.isinf() == (total > torch.finfo(torch.float32).max)).all())
    assert bool(bound.isinf().any()) and not bool(bound.isinf().all())
    assert_accepted(pool(x), value, bound, "float32")
    small = draw("normal", (2, 3, 7, 9), 0)
    ((value, bound),) = outputs_of(pool, small)
    assert bool((bound <= 2e-6).all())
    assert is_rejected(pool(small) * (1 + 2.0**-10), value, bound, "float32")
