"""Functions at infinities, zeros and NaN, where their definitions say what they are."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import pytest
import torch
from reference_cases import U, assert_accepted, is_rejected, outputs_of

INF, NAN = math.inf, math.nan
LARGEST = {
    "float16": 65504.0,
    "bfloat16": float.fromhex("0x1.fep127"),
    "float32": float.fromhex("0x1.fffffep127"),
}


def value_and_bound(reference: Any, *inputs: torch.Tensor, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    ((value, bound),) = outputs_of(reference, *inputs, **options)
    return value, bound


@pytest.mark.parametrize("dtype", LARGEST)
def test_an_infinity_becomes_the_largest_number_of_the_inputs_dtype(dtype: str) -> None:
    x = torch.tensor([INF, -INF, NAN, 1.0], dtype=getattr(torch, dtype))
    value, bound = value_and_bound(torch.nan_to_num, x)
    assert value.tolist() == [LARGEST[dtype], -LARGEST[dtype], 0.0, 1.0]
    assert bound.tolist() == [0.0] * 4
    assert_accepted(torch.nan_to_num(x), value, bound, dtype)
    assert not is_rejected(torch.nan_to_num(x, posinf=LARGEST[dtype]), value, bound, dtype)
    # One that clamps to another format's largest number is wrong.
    wrong = torch.nan_to_num(x, posinf=float("inf") if dtype != "float32" else 65504.0)
    assert bool(((wrong.double() - value).abs() > bound)[0])


def test_a_widened_or_computed_infinity_may_become_either_formats_largest_number() -> None:
    x = torch.tensor([INF, 1.0], dtype=torch.float16)
    for reference in (lambda x: torch.nan_to_num(x.float()), lambda x: torch.nan_to_num(x * 1.5)):
        _, bound = value_and_bound(reference, x)
        assert bound[0] == INF
        assert bound[1] < INF
    value, bound = value_and_bound(lambda x: torch.nan_to_num(x * 1.5), x, profile="P2")
    assert (value[0].item(), bound[0].item()) == (65504.0, 0.0)  # where every step is stored


def test_the_numbers_that_the_call_names_are_taken() -> None:
    x = torch.tensor([INF, -INF, NAN], dtype=torch.float16)
    value, bound = value_and_bound(lambda x: torch.nan_to_num(x, 3.0, 5.0, -7.0), x)
    assert value.tolist() == [5.0, -7.0, 3.0]
    assert bound.tolist() == [0.0, 0.0, 0.0]


def test_remainders_by_an_infinity_follow_c_and_python() -> None:
    a = torch.tensor([1.5, -1.5, 0.0, INF, 5.0, -5.0])
    b = torch.tensor([INF, INF, INF, INF, -INF, -INF])
    value, bound = value_and_bound(torch.fmod, a, b)
    assert value[:3].tolist() == [math.fmod(x, INF) for x in (1.5, -1.5, 0.0)]
    assert value[4:].tolist() == [5.0, -5.0]
    assert bound.tolist() == [0.0] * 6
    value, bound = value_and_bound(torch.remainder, a, b)
    pairs = [(1.5, INF), (-1.5, INF), (0.0, INF), (5.0, -INF), (-5.0, -INF)]
    assert value[[0, 1, 2, 4, 5]].tolist() == [x % y for x, y in pairs]
    assert value[3].isnan()
    assert bound.tolist() == [0.0] * 6
    value, _ = value_and_bound(lambda a: torch.remainder(a, INF), a)
    assert value[:2].tolist() == [1.5, INF]


def test_a_remainder_whose_sign_a_rounding_may_turn_is_unknown() -> None:
    a = torch.tensor([1.0, 3.0])

    def reference(a: torch.Tensor) -> torch.Tensor:
        return torch.remainder((a * 0.1 + 1.0) - 1.1, INF)

    _, bound = value_and_bound(reference, a)
    assert bound[0] == INF
    assert bound[1] < 1e-6


def test_hypotenuses_and_angles_of_infinities() -> None:
    a, b = torch.tensor([INF, NAN, -INF, 3.0, NAN]), torch.tensor([NAN, -INF, 1.0, 4.0, 1.0])
    value, bound = value_and_bound(torch.hypot, a, b)
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    torch.testing.assert_close(value.tolist(), [math.hypot(*pair) for pair in pairs], equal_nan=True)
    assert bound[[0, 1, 2, 4]].tolist() == [0.0] * 4
    value, bound = value_and_bound(torch.angle, torch.tensor([INF, -INF, NAN, -2.0, 0.0]))
    torch.testing.assert_close(value.tolist(), [0.0, math.pi, NAN, math.pi, 0.0], equal_nan=True)
    assert bool((bound <= 4 * U).all())


@pytest.mark.parametrize("dtype", LARGEST)
def test_the_neighbour_towards_or_of_an_infinity_is_known(dtype: str) -> None:
    x = torch.tensor([1.0, 1.0, INF, INF, NAN], dtype=getattr(torch, dtype))
    y = torch.tensor([INF, -INF, 1.0, INF, 1.0], dtype=getattr(torch, dtype))
    value, bound = value_and_bound(torch.nextafter, x, y)
    assert value[3] == INF
    assert value[4].isnan()
    if dtype == "bfloat16":  # torch has it for this dtype on some devices only
        return
    there = torch.nextafter(x.float(), y.float()) if dtype == "float32" else None
    if there is not None:
        assert_accepted(there, value, bound, dtype)
    assert (value[2] - LARGEST[dtype]).abs() <= bound[2]


def test_the_cardinal_sine_is_judged_at_0_and_everywhere() -> None:
    x = torch.tensor([0.0, 1e-30, -1e-3, 0.3, 0.5, 0.7, 1.0, 2.5, 100.25, -1e4])
    value, bound = value_and_bound(torch.sinc, x)
    truth = [float(mpmath.sincpi(v)) if hasattr(mpmath, "sincpi") else float(_sinc(v)) for v in x.tolist()]
    torch.testing.assert_close(value.tolist(), truth, rtol=1e-12, atol=1e-15)
    assert bool((bound <= 40 * U).all())
    assert_accepted(torch.sinc(x), value, bound, "float32")
    assert is_rejected(torch.sinc(x) * (1 + 2.0**-12), value, bound, "float32")
    uncertain, bound = value_and_bound(lambda x: torch.sinc((x * 0.1 + 1.0) - 1.1), torch.tensor([1.0]))
    assert uncertain.item() == pytest.approx(1.0)
    assert bound.item() <= 40 * U


def _sinc(x: float) -> Any:
    with mpmath.workdps(60):
        t = mpmath.pi * mpmath.mpf(x)
        return mpmath.sin(t) / t if x else mpmath.mpf(1)
