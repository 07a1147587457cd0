"""Casts inside references (ORACLE.md section 12.1)."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import torch
from input_regimes import draw
from reference_cases import bound_of, outputs_of


def test_casts_to_wide_floats_are_ignored() -> None:
    x = draw("normal", (20,), 0)
    for dtype in (torch.float32, torch.float64):
        ((value, bound),) = outputs_of(lambda x, d=dtype: torch.exp(x).to(d), x)
        assert torch.equal(value, torch.exp(x.double()))
        assert torch.equal(bound, bound_of(torch.exp, x))


def test_casts_to_the_storage_dtype_permit_a_rounding() -> None:
    x = draw("normal", (20,), 0, torch.float16)
    ((value, bound),) = outputs_of(lambda x: torch.exp(x).half().float(), x)
    exact = torch.exp(x.double())
    assert torch.equal(value, exact)
    expected = bound_of(torch.exp, x) + 2.0**-11 * exact + 2.0**-25
    torch.testing.assert_close(bound, expected, rtol=1e-12, atol=0)


def test_kernels_that_cast_and_kernels_that_do_not_are_both_accepted() -> None:
    x = draw("normal", (50,), 0, torch.bfloat16)
    ((value, bound),) = outputs_of(lambda x: torch.exp(x).bfloat16() * 0.5, x)
    wide = torch.exp(x.float()) * 0.5
    narrow = torch.exp(x.float()).bfloat16().float() * 0.5
    for actual in (wide, narrow):
        assert bool(((actual.double() - value).abs() <= bound).all())


def test_raw_and_representable_numbers_are_cast_exactly() -> None:
    x = draw("normal", (20,), 0, torch.float16)
    assert bool((bound_of(lambda x: x.float().half(), x) == 0).all())
    assert bool((bound_of(lambda x: (x * 2).half(), x) == 0).all())


def test_a_cast_may_overflow() -> None:
    x = torch.tensor([300.0, 255.0], dtype=torch.float16)
    assert bound_of(lambda x: (x * x).half().float(), x).isinf().tolist() == [True, False]


def test_the_references_own_evaluation_ignores_16_bit_casts() -> None:
    x = draw("normal", (20,), 0, torch.float16)
    assert bool((bound_of(lambda x: torch.exp(x).half(), x, unit_roundoff=2.0**-53) < 1e-12).all())


def test_casts_to_integers_are_applied_two_sided() -> None:
    x = torch.tensor([2.0, 2.5, -3.0, 7.9999995])
    ((value, bound),) = outputs_of(lambda x: ((x + 0.1) - 0.1).to(torch.int32), x)
    assert value.dtype == torch.int32
    assert bound.tolist() == [1.0, 0.0, 1.0, 1.0]


def test_rounding_within_the_error_of_a_tie_is_ambiguous() -> None:
    x = torch.tensor([0.5, 1.5, 0.7, 2.25])
    assert bound_of(lambda x: torch.round((x + 0.1) - 0.1), x).tolist() == [1.0, 1.0, 0.0, 0.0]
    # At an exact tie half-even and half-up are both right, whatever is known of the argument.
    assert bound_of(torch.round, x).tolist() == [1.0, 1.0, 0.0, 0.0]


def test_quantisation_to_int8_is_nearly_unambiguous() -> None:
    def reference(x: torch.Tensor) -> torch.Tensor:
        scale = x.abs().amax(-1, keepdim=True) / 127
        return (x / scale).round().clamp(-128, 127).to(torch.int8)

    x = draw("normal", (40, 500), 0)
    ((value, bound),) = outputs_of(reference, x)
    assert value.dtype == torch.int8
    assert (bound > 0).double().mean() < 1e-3
    other = (x * (127 / x.abs().amax(-1, keepdim=True))).round().clamp(-128, 127)
    assert bool(((other.double() - value.double()).abs() <= bound).all())


def test_numbers_that_no_integer_holds_are_unknown() -> None:
    x = torch.tensor([math.nan, math.inf, 1e10, 5.0])
    assert bound_of(lambda x: x.to(torch.int32), x).isinf().tolist() == [True, True, True, False]
    assert bound_of(lambda x: x.to(torch.int8), x).isinf().tolist() == [True, True, True, False]


def test_casts_to_8_bit_floats_are_applied() -> None:
    x = draw("normal", (200,), 0) * 10
    truth = x.numpy().astype(ml_dtypes.float8_e4m3fn).astype(np.float64)
    ((value, bound),) = outputs_of(lambda x: x.to(torch.float8_e4m3fn).float(), x)
    assert torch.equal(value, torch.from_numpy(truth))
    assert bool((bound == 0).all())
    ((value, bound),) = outputs_of(
        lambda x: ((x + 0.1) - 0.1).to(torch.float8_e4m3fn).float(), torch.tensor([1.0625])
    )
    assert bound.item() == 0.125  # halfway between 1 and 1.125


def test_saturation_of_8_bit_floats_is_the_kernels_choice() -> None:
    x = torch.tensor([500.0, 448.0])
    assert bound_of(lambda x: x.to(torch.float8_e4m3fn).float(), x).isinf().tolist() == [True, False]


def test_casts_to_bool_are_comparisons() -> None:
    x = torch.tensor([0.0, 1.0])
    ((value, bound),) = outputs_of(lambda x: ((x + 0.1) - 0.1).bool(), x)
    assert value[1].item() is True
    assert (bound > 0).tolist() == [True, False]


def test_integers_and_bools_become_exact_floats() -> None:
    ((value, bound),) = outputs_of(
        lambda i: i.float() * (i > 1).to(torch.float16), torch.arange(4), dtype="float32"
    )
    assert value.tolist() == [0.0, 0.0, 2.0, 3.0]
    assert bool((bound == 0).all())


def test_what_8_bits_round_down_to_their_largest_number_is_known() -> None:
    """From 464, the middle between 448 and what would be 480, kernels saturate or give NaN."""
    x = torch.tensor([448.0, 463.9, 464.0, 1e4, -463.9, math.nan])
    ((value, bound),) = outputs_of(lambda x: x.to(torch.float8_e4m3fn), x)
    assert value[[0, 1, 4]].tolist() == [448.0, 448.0, -448.0]
    assert bound.tolist()[:5] == [0.0, 0.0, math.inf, math.inf, 0.0]
    bound = bound_of(lambda x: x.to(torch.float8_e5m2), torch.tensor([61439.0, 61440.0]))
    assert bound.tolist() == [0.0, math.inf]
