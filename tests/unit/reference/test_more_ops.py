"""Ops of torch's database that references use now and then, each against independent truth."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from reference_cases import U, assert_accepted, follow, is_rejected, outputs_of
from torch.nn import functional

from gpuemu.reference.arithmetic import make_arithmetic
from gpuemu.reference.dispatch import Evaluation
from gpuemu.reference.errors import UnsupportedReferenceError

X = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def value_and_bound(reference: Any, *inputs: torch.Tensor, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    expected = follow(reference, *inputs, **options)
    assert (expected.problem, expected.generic) == (None, ())
    ((value, bound),) = outputs_of(reference, *inputs, **options)
    return value, bound


def test_closeness_is_numpys_and_in_doubt_at_the_tolerance_only() -> None:
    a = torch.tensor([1.0, 1.0, math.inf, math.inf, math.nan, 0.0, 2.0, math.inf])
    b = torch.tensor([1.0 + 1e-6, 1.1, math.inf, -math.inf, math.nan, 1e-9, 2.0, 1.0])
    for equal in (False, True):
        value, bound = value_and_bound(lambda a, b, e=equal: torch.isclose(a, b, equal_nan=e), a, b)
        assert value.tolist() == np.isclose(a.double(), b.double(), equal_nan=equal).tolist()
        assert not bool(bound.any())
    value, bound = value_and_bound(lambda x: torch.isclose(x * 1.1, x * 1.1 + 1e-3, rtol=0.0, atol=1e-3), X)
    assert bool((bound > 0).all())
    value, bound = value_and_bound(lambda x: torch.isclose(x * 1.1, x * 1.1 + 1e-3, rtol=0.0, atol=1.1e-3), X)
    assert bool(value.all())
    assert not bool(bound.any())


def test_integers_are_close_as_numbers_are() -> None:
    a, b = torch.tensor([1, 100000, 7]), torch.tensor([1, 100001, 9])
    value, bound = value_and_bound(lambda x, a, b: torch.isclose(a, b) | (x[0] > 5), X, a, b)
    assert value.tolist() == np.isclose(a, b).tolist()
    assert not bool(bound.any())


def test_a_number_compares_with_itself_in_one_way() -> None:
    def not_itself(x: torch.Tensor) -> torch.Tensor:
        y = x * 1.1
        return y != y  # noqa: PLR0124

    value, bound = value_and_bound(not_itself, torch.tensor([1.0, math.nan, math.inf]))
    assert value.tolist() == [False, True, False]
    assert not bool(bound.any())


def test_products_of_uncertain_bools_are_bools() -> None:
    value, bound = value_and_bound(lambda x: ((x * 1.1 > 3.3) * (x < 9)) & (x > 0), X)
    assert (bound > 0).tolist() == [[False, False, True], [False] * 3]
    assert value.tolist() == [[False, False, bool(value[0, 2])], [True] * 3]


@pytest.mark.parametrize("steps", [1, 2, 5, 8])
def test_ranges_between_tensors(steps: int) -> None:
    ends = torch.tensor([0.3, 7.7])
    value, bound = value_and_bound(lambda x: torch.linspace(x[0], x[1], steps), ends)
    expected = np.linspace(*ends.double().tolist(), steps)
    torch.testing.assert_close(value.numpy(), expected, rtol=1e-14, atol=0)
    assert bound[0].item() == 0.0
    assert bool((bound <= 8 * U * 7.7).all())
    assert_accepted(torch.linspace(ends[0], ends[1], steps), value, bound, "float32")
    by_steps = [
        np.float32(ends[0]) + np.float32(i) * np.float32((ends[1] - ends[0]) / max(steps - 1, 1))
        for i in range(steps)
    ]
    assert_accepted(torch.tensor(np.array(by_steps)), value, bound, "float32")
    if steps > 1:
        share = torch.arange(steps, dtype=torch.float64) / (steps - 1)
        assert bool((bound[1:] >= (U * (2 * share * 7.4 + value.abs()))[1:] * (1 - 1e-6)).all())
        assert is_rejected(torch.linspace(0.3, 7.7, steps + 1)[:steps], value, bound, "float32")
        moved, bound = value_and_bound(lambda x: torch.linspace(x[0] * 1.1, 5.0, steps), ends)
        assert bound[0].item() >= U * 0.33
        assert moved[-1] == 5.0


def test_powers_between_tensors() -> None:
    ends = torch.tensor([-2.0, 3.0])
    value, bound = value_and_bound(lambda x: torch.logspace(x[0], x[1], 6, base=2.0), ends)
    torch.testing.assert_close(value.numpy(), np.logspace(-2, 3, 6, base=2.0), rtol=1e-14, atol=0)
    assert_accepted(torch.logspace(ends[0], ends[1], 6, base=2.0), value, bound, "float32")
    assert bool((bound <= 64 * U * value).all())


def test_the_sign_of_a_number_is_copied() -> None:
    for sign in (-1.0, 2.0, -0.0):
        value, bound = value_and_bound(lambda x, s=sign: torch.copysign(x, s), X)
        assert value.tolist() == [[math.copysign(v, sign) for v in row] for row in X.tolist()]
        assert not bool(bound.any())


def test_a_group_norm_of_nothing_is_nothing() -> None:
    value, _ = value_and_bound(lambda x: functional.group_norm(x, 1), torch.zeros(0, 6, 3))
    assert value.shape == (0, 6, 3)


def test_the_largest_of_adaptive_windows_of_three_dims() -> None:
    x = torch.randn(1, 2, 4, 5, 6, generator=torch.Generator().manual_seed(0))
    value, bound = value_and_bound(lambda x: functional.adaptive_max_pool3d(x, (2, 1, 3)), x)
    expected = x.double().reshape(1, 2, 2, 2, 5, 3, 2).amax((3, 4, 6)).unsqueeze(3)
    assert torch.equal(value, expected)
    assert not bool(bound.any())


@pytest.mark.parametrize(("reduce", "start"), [("add", 0.5), ("multiply", 3.0)])
def test_scatters_that_reduce(reduce: str, start: float) -> None:
    target, index = torch.full((3,), start), torch.tensor([0, 0, 2])
    source = torch.tensor([1.1, 2.3, 0.7])

    def by_source(t: torch.Tensor, s: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return t.scatter(0, i, s, reduce=reduce)

    def by_number(t: torch.Tensor, s: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return t.scatter(0, i, 0.1, reduce=reduce)

    for reference, numbers in ((by_source, source.double().tolist()), (by_number, [0.1] * 3)):
        value, bound = value_and_bound(reference, target, source, index)
        expected = [start] * 3
        for i, number in zip(index.tolist(), numbers, strict=True):
            expected[i] = expected[i] + number if reduce == "add" else expected[i] * number
        assert value.tolist() == pytest.approx(expected, rel=1e-14)
        assert bound[1].item() == 0.0
        assert bool((bound[[0, 2]] > 0).all() & (bound <= 12 * U * value.abs()).all())
        assert_accepted(reference(target, source, index), value, bound, "float32")


def test_a_reduction_at_an_index_of_a_number() -> None:
    source, index = torch.tensor(3.3), torch.tensor([0])

    def reference(t: torch.Tensor, s: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return t.index_reduce(0, i, s, "prod")

    value, bound = value_and_bound(reference, torch.tensor(2.1), source, index)
    assert value.shape == ()
    assert value.item() == pytest.approx(2.1 * 3.3, rel=1e-6)
    assert 0 < bound.item() <= 5 * U * value.item()


def test_strided_views_are_read_and_written_by_their_places_in_memory() -> None:
    x = torch.arange(12.0).reshape(3, 4)

    def windows(x: torch.Tensor) -> torch.Tensor:
        return (x * 1.1).as_strided((5, 3), (2, 1), 1)

    value, bound = value_and_bound(windows, x)
    flat = x.double().flatten() * 1.1
    expected = torch.stack([flat[1 + 2 * i : 4 + 2 * i] for i in range(5)])
    torch.testing.assert_close(value, expected, rtol=1e-14, atol=0)
    _, errors = value_and_bound(lambda x: x * 1.1, x)
    assert torch.equal(bound, torch.stack([errors.flatten()[1 + 2 * i : 4 + 2 * i] for i in range(5)]))

    def written(x: torch.Tensor) -> torch.Tensor:
        y = x * 1.1
        y.as_strided((3,), (5,)).copy_(x[0, :3] * 0.3)  # the diagonal
        return y

    value, bound = value_and_bound(written, x)
    expected = x.double() * 1.1
    expected.diagonal().copy_(x.double()[0, :3] * 0.3)
    torch.testing.assert_close(value, expected, rtol=1e-14, atol=0)
    assert bool((bound[1, 2:] == errors[1, 2:]).all())
    assert bool((bound.diagonal()[1:] < errors.diagonal()[1:]).all())


def test_strided_views_of_views_start_where_those_do() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    value, _ = value_and_bound(lambda x: (x + 1.0)[1:].as_strided((2,), (3,)), x)
    assert value.tolist() == [5.0, 8.0]
    value, _ = value_and_bound(lambda x: (x + 1.0).t().as_strided((2,), (3,), 2), x)
    assert value.tolist() == [3.0, 6.0]

    def transposed(x: torch.Tensor) -> torch.Tensor:
        return (x.t() * 1.1).as_strided((2, 2), (4, 1), 0)

    value, bound = value_and_bound(transposed, x)
    assert value.tolist() == transposed(x.double()).tolist()
    _, errors = value_and_bound(lambda x: x * 1.1, x)
    assert torch.equal(bound, errors[:2, :2])
    value, _ = value_and_bound(lambda x: (x + 1.0)[:1].expand(3, 4).as_strided((2,), (5,)), x)
    assert value.tolist() == [1.0, 6.0]


def test_an_error_that_lies_otherwise_in_memory_is_viewed_by_the_values_places() -> None:
    value = torch.arange(12.0, dtype=torch.float64).reshape(4, 3).t()
    evaluation = Evaluation(make_arithmetic("P0", "float32"))
    x = evaluation.make(value, (value * 0.1).contiguous())
    view: Any = x.as_strided((2, 4), (4, 1), 1)
    assert view.value.tolist() == [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]
    torch.testing.assert_close(view.error, view.value * 0.1)
    with pytest.raises(UnsupportedReferenceError, match="index it instead"):
        evaluation.make(value[::2]).as_strided((2,), (1,))


@pytest.mark.parametrize(
    ("name", "truth"),
    [
        ("i0", lambda x: mpmath.besseli(0, x)),
        ("i0e", lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x))),
        ("i1", lambda x: mpmath.besseli(1, x)),
        ("i1e", lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x))),
    ],
)
def test_bessel_functions(name: str, truth: Any) -> None:
    x = torch.tensor([-40.0, -5.5, -1.5, -0.3, -1e-4, 0.0, 1e-4, 0.7, 1.545, 2.4048, 3.8317, 9.0, 33.0, 88.0])
    function = getattr(torch.special, name)
    value, bound = value_and_bound(function, x)
    for number, y, b in zip(x.tolist(), value.tolist(), bound.tolist(), strict=True):
        with mpmath.workdps(50):
            exact = truth(mpmath.mpf(number))
        assert abs(y - exact) <= 1e-13 * abs(exact)
        room = 32 * U * abs(y) + 2.5 * U * abs(number) * max(abs(y), 1.0) + 1e-33
        assert b <= room or (b == math.inf and number == 88.0)  # exp(88) is half of what float32 holds
    assert_accepted(function(x), value, bound, "float32")
    assert is_rejected(function(x) * (1 + 2.0**-14), value, bound, "float32")


@pytest.mark.parametrize("middle", [0.0, 1.545, 10.0])
@pytest.mark.parametrize("name", ["i0", "i0e", "i1", "i1e"])
def test_bessel_functions_over_wide_intervals(name: str, middle: float) -> None:
    """Such as hold the minimum of I0 at 0, and the maximum of I1 exp(-x) at 1.545 beside one end."""
    function, x = getattr(torch.special, name), torch.tensor([0.01, 1.1, 3.3, 140.0])

    def argument(x: torch.Tensor) -> torch.Tensor:
        return (x * 1.1e6 - x * 1.1e6) + middle

    _, reaches = value_and_bound(argument, x)
    value, bound = value_and_bound(lambda x: function(argument(x)), x)
    assert reaches[-1] > 9
    for reach, y, b in zip(reaches.tolist(), value.tolist(), bound.tolist(), strict=True):
        inside = function(torch.linspace(middle - reach, middle + reach, 1001, dtype=torch.float64))
        assert b >= (inside - y).abs().max()


def test_i0_is_unknown_where_its_exponential_overflows() -> None:
    value, bound = value_and_bound(torch.special.i0, torch.tensor([87.0, 90.0]))
    assert bound.isinf().tolist() == [False, True]
    assert value[1] < torch.finfo(torch.float32).max


@pytest.mark.parametrize("bias", [False, True])
def test_a_linear_layer_takes_a_vector(bias: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x, w, b = (torch.randn(*shape, generator=generator) for shape in ((7,), (4, 7), (4,)))

    def reference(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, w, b if bias else None)

    value, bound = value_and_bound(reference, x, w, b)
    expected = w.double().numpy() @ x.double().numpy() + (b.double().numpy() if bias else 0.0)
    torch.testing.assert_close(value.numpy(), expected, rtol=1e-14, atol=1e-14)
    assert_accepted(reference(x, w, b), value, bound, "float32")
    assert bool((bound <= 1e-5).all())
