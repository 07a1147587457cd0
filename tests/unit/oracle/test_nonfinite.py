"""Every row of the decision table of ORACLE.md section 3."""

from __future__ import annotations

import pytest
import torch
from oracle_cases import INF, NAN, expect, f64, inside, judged

from gpuemu.model.op import Contract
from gpuemu.model.verdict import Flag, Kind, Status
from gpuemu.oracle.nonfinite import classify

LARGEST = (2 - 2.0**-23) * 2.0**127
TRUE = torch.tensor([True])
FALSE = torch.tensor([False])


@pytest.mark.parametrize("bound", [INF, NAN])
@pytest.mark.parametrize("r", [0.0, 3.0, INF, NAN])
@pytest.mark.parametrize("y", [NAN, INF, -INF, 0.0, LARGEST, 17.0])
def test_rule_1_where_the_range_is_ambiguous_any_value_is_accepted(bound: float, r: float, y: float) -> None:
    assert inside(torch.tensor([y]), expect(f64(r), bound)) == [True]
    tainted = expect(f64(r), bound, expects_nan=f64(r).isnan())
    assert inside(torch.tensor([y]), tainted) == [True]


def test_rule_2_an_expected_nan_is_accepted_whatever_its_sign_and_payload() -> None:
    payloads = torch.tensor([0x7FC00001, -0x400000, 0x7F800123], dtype=torch.int32).view(torch.float32)
    assert bool(payloads.isnan().all())
    expected = expect(f64(NAN, NAN, NAN), 0.0, expects_nan=TRUE.expand(3))
    verdict = judged(payloads, expected, Contract(nan="propagate"))
    assert (verdict.status, verdict.flags) == (Status.PASS, ())


@pytest.mark.parametrize("y", [0.0, 1.5, INF])
def test_rule_2_a_swallowed_nan_is_reported_refused_or_ignored_as_the_contract_says(y: float) -> None:
    expected = expect(f64(NAN, 1.0), 0.0, expects_nan=torch.tensor([True, False]))
    actual = torch.tensor([y, 1.0])
    reported = judged(actual, expected, Contract(nan="report"))
    assert (reported.status, reported.flags) == (Status.PASS, (Flag.NAN_SEMANTICS,))
    assert "1 of 2 elements should be NaN" in reported.message
    refused = judged(actual, expected, Contract(nan="propagate"))
    assert (refused.status, refused.kind) == (Status.FAIL, Kind.NONFINITE)
    assert refused.worst is not None
    assert refused.worst.index == (0,)
    ignored = judged(actual, expected, Contract(nan="ignore"))
    assert (ignored.status, ignored.flags, ignored.message) == (Status.PASS, (), "")


@pytest.mark.parametrize("mask", [None, FALSE])
@pytest.mark.parametrize("y", [NAN, INF, 0.0, -3.0])
def test_rule_3_an_indeterminate_nan_is_not_judged(mask: torch.Tensor | None, y: float) -> None:
    expected = expect(f64(NAN), 0.0, expects_nan=mask)
    assert inside(torch.tensor([y]), expected) == [True]
    verdict = judged(torch.tensor([y]), expected, Contract(nan="propagate"))
    assert verdict.status is Status.INCONCLUSIVE
    assert verdict.errors is not None
    assert verdict.errors.judged == 0


@pytest.mark.parametrize("r", [INF, -INF])
@pytest.mark.parametrize("bound", [0.0, 5.0])
def test_rule_4_an_infinity_must_be_the_same_infinity(r: float, bound: float) -> None:
    actual = torch.tensor([r, -r, LARGEST, -LARGEST, 0.0, NAN])
    expected = expect(f64(*[r] * 6), bound)
    assert inside(actual, expected) == [True, False, False, False, False, False]


def test_rule_4_nan_is_accepted_for_an_infinity_only_if_some_input_was_infinite() -> None:
    actual = torch.tensor([NAN, INF, -INF, 3.0])
    expected = expect(f64(*[INF] * 4), 0.0, infinite_input=True)
    assert inside(actual, expected) == [True, True, False, False]
    finite = expect(f64(1.0, 2.0), 0.0, infinite_input=True)
    assert inside(torch.tensor([NAN, 2.0]), finite) == [False, True]


def test_rule_4_a_saturating_format_gives_its_largest_number_instead() -> None:
    actual = torch.tensor([448.0, -448.0, 416.0]).to(torch.float8_e4m3fn)
    assert inside(actual, expect(f64(INF, INF, INF), 0.0, "float8_e4m3fn")) == [True, False, False]
    with_infinity = torch.tensor([57344.0, INF]).to(torch.float8_e5m2)
    assert inside(with_infinity, expect(f64(INF, INF), 0.0, "float8_e5m2")) == [False, True]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("bound", [0.0, 1.0, 1e300])
@pytest.mark.parametrize("r", [0.0, 1.0, -1e3, 1e38])
def test_rule_5_nan_never_passes_where_a_number_is_due(dtype: str, bound: float, r: float) -> None:
    actual = torch.tensor([NAN]).to(getattr(torch, dtype))
    expected = expect(f64(r), bound, dtype)
    assert inside(actual, expected) == [False]
    for policy in ("report", "propagate", "ignore"):
        verdict = judged(actual, expected, Contract(nan=policy))
        assert (verdict.status, verdict.kind) == (Status.FAIL, Kind.NONFINITE)


def test_rule_5_infinity_is_a_rounding_target_near_the_largest_number() -> None:
    ulp = 2.0**104
    both = torch.tensor([LARGEST, INF])
    assert inside(both, expect(f64(LARGEST, LARGEST), 0.0)) == [True, False]
    assert inside(both, expect(f64(LARGEST, LARGEST), 0.49 * ulp)) == [True, False]
    assert inside(both, expect(f64(LARGEST, LARGEST), 0.5 * ulp)) == [True, True]
    assert inside(both, expect(f64(LARGEST + ulp, LARGEST + ulp), 0.0)) == [False, True]
    assert inside(both, expect(f64(LARGEST + ulp, LARGEST + ulp), 0.6 * ulp)) == [True, True]
    assert inside(both, expect(f64(1.0, 1.0), 1e300)) == [True, True]  # so large a bound reaches infinity


def test_rule_6_zeros_of_either_sign_are_equal() -> None:
    assert inside(torch.tensor([-0.0, 0.0]), expect(f64(0.0, -0.0), 0.0)) == [True, True]


def test_rule_6_integers_made_from_a_non_finite_value_are_not_judged() -> None:
    expected = expect(f64(NAN, INF, 4.0), 0.0, "int32")
    assert inside(torch.tensor([7, -1, 4], dtype=torch.int32), expected) == [True, True, True]
    assert inside(torch.tensor([7, -1, 5], dtype=torch.int32), expected) == [True, True, False]


def test_rule_7_a_case_with_few_judged_elements_is_inconclusive() -> None:
    bound = torch.full((8,), INF, dtype=torch.float64)
    bound[0] = 1e-6
    value = torch.ones(8, dtype=torch.float64)
    verdict = judged(torch.ones(8), expect(value, bound))
    assert verdict.status is Status.INCONCLUSIVE
    assert verdict.message == "only 1 of 8 elements can be judged"
    bound[1] = 1e-6  # a quarter is enough
    assert judged(torch.ones(8), expect(value, bound)).status is Status.PASS
    wrong = torch.ones(8)
    wrong[0] = 2.0  # what is judged may convict all the same
    bound[1] = INF
    assert judged(wrong, expect(value, bound)).status is Status.FAIL


def test_masks_are_none_where_no_element_needs_them() -> None:
    masks = classify(f64(1.0, 2.0), f64(0.1, 0.2), torch.tensor([False, False]), infinite_input=True)
    assert masks.unjudged is None
    assert masks.expects_nan is None
    assert masks.permits_nan is None


def test_a_taint_mask_without_a_nan_expects_nothing() -> None:
    """The mask speaks about NaN elements only; a number stays a number."""
    assert inside(torch.tensor([NAN, 1.0]), expect(f64(1.0, 1.0), 0.1, expects_nan=TRUE.expand(2))) == [
        False,
        True,
    ]
