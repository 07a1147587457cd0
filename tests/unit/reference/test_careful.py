"""Rule 7 and section 3: overflow, poles, infinities, and what masks them."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from reference_cases import FLOAT32_MAX, bound_of, follow, outputs_of
from torch.nn import functional

INF, NAN = math.inf, math.nan


def judged(bound: torch.Tensor) -> list[bool]:
    return (bound < INF).tolist()


def test_overflow_of_an_intermediate_makes_the_rest_unjudged() -> None:
    x = torch.tensor([1e30, 2.0, -1e25])
    assert judged(bound_of(torch.square, x)) == [False, True, False]
    assert judged(bound_of(lambda x: 1 / torch.square(x), x)) == [False, True, False]
    assert judged(bound_of(lambda x: torch.sqrt(torch.square(x) + 1), x)) == [False, True, False]
    assert judged(bound_of(lambda x: x * torch.rsqrt(x.square().mean() + 1e-5), x)) == [False] * 3


def test_overflow_of_float64_itself_is_unknown() -> None:
    ((value, bound),) = outputs_of(lambda x: 1 / torch.exp(x), torch.tensor([800.0, 1.0]))
    assert value[0] == 0.0
    assert judged(bound) == [False, True]
    assert judged(bound_of(torch.exp, torch.tensor([800.0, 1.0]))) == [False, True]


def test_the_range_is_that_of_float16_under_p2() -> None:
    x = torch.tensor([300.0, 200.0, 1.0], dtype=torch.float16)
    assert judged(bound_of(torch.square, x, profile="P0")) == [True, True, True]
    assert judged(bound_of(torch.square, x, profile="P2")) == [False, True, True]


def test_partial_sums_overflow_even_if_the_result_does_not() -> None:
    x = torch.tensor([[3e38, -3e38], [1.0, 2.0]])
    assert judged(bound_of(lambda x: x.sum(-1), x)) == [False, True]
    assert judged(bound_of(lambda x: x.mean(-1), x)) == [False, True]
    assert judged(bound_of(lambda x: (x @ torch.ones(2, 1))[:, 0], x)) == [False, True]
    assert judged(bound_of(lambda x: (x * 1.5 @ torch.ones(2, 1))[:, 0], x)) == [False, True]


def test_a_sum_just_above_the_largest_number_still_rounds_to_it() -> None:
    x = torch.tensor([FLOAT32_MAX])
    assert judged(bound_of(lambda x: x + 5.0, x)) == [True]
    assert judged(bound_of(lambda x: x + 1e32, x)) == [False]


def test_infinite_inputs_carry_no_error() -> None:
    x = torch.tensor([INF, -INF, 1.5])
    for reference in (torch.relu, torch.exp, torch.sigmoid, torch.tanh, functional.elu, lambda x: x * 2 + 0.1):
        ((value, bound),) = outputs_of(reference, x)
        assert judged(bound) == [True] * 3
        assert bool((bound[value.isinf()] == 0).all())


def test_infinity_dominates_what_it_meets() -> None:
    x = torch.tensor([INF, -INF, 1.5])
    ((value, bound),) = outputs_of(lambda x: torch.exp(x) * 0.1 + 0.3, x)
    assert value[0] == INF
    assert bound[0] == 0
    assert value[1] == 0.3
    assert 0 < bound[1] < 1e-6


def test_exact_poles_are_infinite_and_uncertain_ones_unknown() -> None:
    x = torch.tensor([0.0, 2.0])
    for reference in (torch.reciprocal, torch.log, torch.rsqrt, lambda x: 1.0 / x, lambda x: x**-2):
        ((value, bound),) = outputs_of(reference, x)
        assert value[0].isinf()
        assert bound[0] == 0
        assert 0 < bound[1] < 1e-5
    ((value, bound),) = outputs_of(lambda x: 1 / (x * 0.1 - 0.2), x)
    assert judged(bound) == [True, False]


def test_a_divisor_that_may_be_flushed_is_unknown() -> None:
    assert judged(bound_of(torch.reciprocal, torch.tensor([1e-40, 1e-30]))) == [False, True]
    assert judged(bound_of(lambda x: x / x, torch.tensor([1e-40, 1e-30]))) == [False, True]


def test_roots_of_what_may_be_negative_are_unknown() -> None:
    x = torch.tensor([0.1, 3.0])
    assert judged(bound_of(lambda x: torch.sqrt(x * 0.1 - 0.01), x)) == [False, True]
    assert judged(bound_of(lambda x: torch.log(x * 10 - 1), x)) == [False, True]


def test_norms_of_zero_rows_are_judged() -> None:
    x = torch.tensor([[0.0, 0.0], [3.1, 4.2]])
    for reference in (lambda x: x.norm(dim=-1), lambda x: x.std(-1), lambda x: functional.normalize(x, dim=-1)):
        bound = bound_of(reference, x)
        assert bool((bound < 1e-5).all())


def test_nan_carries_no_error_and_is_expected() -> None:
    x = torch.tensor([NAN, 1.0])
    for reference in (torch.relu, torch.exp, lambda x: x * 3 + 1, lambda x: torch.log(x).exp()):
        expected = follow(reference, x)
        (output,) = expected.outputs
        assert output.expects_nan is not None
        assert output.expects_nan.tolist() == [True, False]
        assert output.bound[0] == 0


def test_indeterminate_forms_are_not_expected_nan() -> None:
    x = torch.tensor([INF, 1.0])
    (output,) = follow(lambda x: x - x, x).outputs
    assert output.value[0].isnan()
    assert output.expects_nan is not None
    assert not bool(output.expects_nan.any())


def test_nan_that_the_domain_makes_is_expected() -> None:
    (output,) = follow(torch.log, torch.tensor([-1.0, 1.0])).outputs
    assert output.expects_nan is not None
    assert output.expects_nan.tolist() == [True, False]
    assert output.bound[0] == 0


def test_one_nan_does_not_spoil_other_rows() -> None:
    x = torch.ones(3, 4) * 1.1
    x[1, 2] = NAN
    for reference in (
        lambda x: functional.softmax(x, -1),
        lambda x: functional.layer_norm(x, (4,)),
        lambda x: x @ torch.full((4, 2), 0.1),
        lambda x: (x * 0.1).sum(-1),
        lambda x: functional.log_softmax(x, -1),
    ):
        ((value, bound),) = outputs_of(reference, x)
        clean = ~value.isnan()
        assert not bool(clean[1].any())
        assert bool(clean[0].all())
        assert bool((bound[clean] < 1e-3).all())
        assert bool((bound[value.isnan()] == 0).all()) or bool((bound[value.isnan()] < INF).all())


def test_masked_scores_stay_judged() -> None:
    x = torch.tensor([[1.0, 2.0, 3.0]])
    mask = torch.tensor([[False, False, True]])

    def reference(x: torch.Tensor, mask: torch.Tensor, hidden: float) -> torch.Tensor:
        return functional.softmax(x.masked_fill(mask, hidden), -1)

    for hidden in (-INF, -1e9, torch.finfo(torch.float64).min, -FLOAT32_MAX):
        ((value, bound),) = outputs_of(reference, x, mask, params={"hidden": hidden})
        assert value[0, 2] == 0
        assert bool((bound < 1e-5).all())


def test_additive_masks_stay_judged() -> None:
    def reference(x: torch.Tensor) -> torch.Tensor:
        mask = torch.full((3, 3), torch.finfo(x.dtype).min).triu(1)
        return functional.softmax(x * 0.3 + mask, -1)

    assert bool((bound_of(reference, torch.rand(3, 3)) < 1e-5).all())


def test_fully_masked_rows_are_indeterminate() -> None:
    (output,) = follow(lambda x: functional.softmax(x - INF, -1), torch.ones(2, 3)).outputs
    assert bool(output.value.isnan().all())


def test_wide_logits_may_move_all_the_weight() -> None:
    """A logit of 10000 +- 40 (bfloat16) beside one of 9990: either may win."""
    x = torch.tensor([[10000.0, 9920.0, 0.0]], dtype=torch.bfloat16)
    bound = bound_of(lambda x: functional.softmax(x, -1), x, profile="P2")
    assert bool((bound[0, :2] >= 0.99).all())
    assert bound[0, 2] < 1e-6


def test_a_wide_logit_of_little_share_may_win() -> None:
    """0 beside -60 +- 119: the second may be 59."""

    def logits(x: torch.Tensor) -> torch.Tensor:
        return torch.where(torch.tensor([True, False]), x, (x + 1e9) - 1e9)

    x = torch.tensor([[0.0, -60.0]])
    bound = bound_of(lambda x: functional.softmax(logits(x), -1), x)
    assert bool((bound >= 0.99).all())
    assert bound_of(lambda x: torch.logsumexp(logits(x), -1), x).item() >= 58
    assert bound_of(lambda x: functional.log_softmax(logits(x), -1), x)[0, 0] >= 58


def test_an_unknown_logit_makes_its_row_unknown() -> None:
    x = torch.tensor([[1e30, 1.0], [2.0, 1.0]])
    bound = bound_of(lambda x: functional.softmax(x * x, -1), x)
    assert judged(bound) == [[False, False], [True, True]]
    bound = bound_of(lambda x: functional.log_softmax(x * x, -1), x)
    assert judged(bound) == [[False, False], [True, True]]


@pytest.mark.parametrize("function", [torch.sigmoid, torch.tanh, torch.exp, functional.silu, functional.gelu])
def test_wide_arguments_are_bounded_soundly(function: object) -> None:
    """An argument that may be 11.92 off: the bound covers whatever the function gives there."""

    def reference(x: torch.Tensor) -> torch.Tensor:
        return function((x + 1e8) - 1e8)  # type: ignore[operator]

    for start in (41.0, 20.5, 3.0, -1.0, -6.0, -12.0):
        x = torch.tensor([start])
        ((value, bound),) = outputs_of(reference, x)
        grid = torch.linspace(start - 11.9, start + 11.9, 1001, dtype=torch.float64)  # 2 u * 1e8 = 11.92
        farthest = (function(grid) - value).abs().max()  # type: ignore[operator]
        assert bound.item() >= farthest * (1 - 1e-12)


@pytest.mark.parametrize("bounded", [torch.tanh, torch.sigmoid, functional.relu6, lambda x: x.clamp(-1.0, 1.0)])
def test_a_bounded_function_of_what_may_be_nan_may_be_nan(bounded: Callable[..., torch.Tensor]) -> None:
    x = torch.tensor([3e38, 1.0])

    def reference(x: torch.Tensor) -> torch.Tensor:
        return bounded(2.0 * x - 2.0 * x)

    assert reference(x).isnan().tolist() == [True, False]  # what plain float32 makes of it
    assert judged(bound_of(reference, x)) == [False, True]
