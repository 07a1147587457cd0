"""Every row of the decision table of ORACLE.md section 3."""

from __future__ import annotations

import pytest
import torch
from oracle_cases import INF, NAN, expect, f64, inside, judged

from gpuemu.model.op import Contract
from gpuemu.model.verdict import Flag, Kind, Status, Verdict
from gpuemu.oracle.bounds import CHUNK_ELEMENTS, accept
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


# --- what a contract says beyond the table --------------------------------------------------------------------


def refused(verdict: Verdict) -> bool:
    return verdict.status is Status.FAIL and verdict.kind == Kind.NONFINITE


@pytest.mark.parametrize("bound", [0.0, INF])
def test_forbid_fails_every_nan_that_is_returned_also_where_nothing_else_is_judged(bound: float) -> None:
    expected = expect(f64(NAN, 1.0, 1.0), f64(0.0, bound, 0.0), expects_nan=torch.tensor([True, False, False]))
    forbid = Contract(nan="forbid")
    assert inside(torch.tensor([NAN, NAN, 1.0]), expected, forbid) == [False, False, True]
    assert refused(judged(torch.tensor([NAN, 1.0, 1.0]), expected, forbid))
    assert refused(judged(torch.tensor([0.0, NAN, 1.0]), expected, forbid))
    kept = judged(torch.tensor([-7.0, 1.0, 1.0]), expected, forbid)  # no other value is due
    assert (kept.status, kept.flags) == (Status.PASS, ())


def test_elements_that_an_input_nan_reaches_count_as_judged_only_where_they_are() -> None:
    expected = expect(f64(NAN, NAN, NAN, NAN), 0.0, expects_nan=TRUE.expand(4))
    zeros = torch.zeros(4)
    assert judged(zeros, expected, Contract(nan="propagate")).status is Status.FAIL
    assert judged(zeros, expected, Contract(nan="report")).status is Status.PASS
    for policy in ("ignore", "forbid"):
        assert judged(zeros, expected, Contract(nan=policy)).status is Status.INCONCLUSIVE


MASKED = Contract(masked_value=0.1)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e5m2"])
def test_a_masked_value_is_due_to_the_last_bit_where_the_reference_makes_a_nan(dtype: str) -> None:
    """One row is masked, one holds an input NaN, one is a number."""
    storage = getattr(torch, dtype)
    expected = expect(f64(NAN, NAN, 2.0), 1e-9, dtype, expects_nan=torch.tensor([False, True, False]))
    due = torch.tensor([0.1, NAN, 2.0]).to(storage)
    assert inside(due, expected, MASKED) == [True, True, True]
    verdict = judged(due, expected, MASKED)
    assert (verdict.status, verdict.flags) == (Status.PASS, ())
    assert verdict.errors is not None
    assert (verdict.errors.judged, verdict.errors.max_bound_units) == (3, 0.0)
    up = torch.nextafter(due.float(), torch.tensor(9.0)) if dtype == "float32" else None
    off = (
        up
        if up is not None
        else (due.view(torch.int16 if storage.itemsize == 2 else torch.uint8) + 1).view(storage)
    )
    assert not inside(off, expected, MASKED)[0]
    for wrong in (0.0, NAN, INF):
        actual = torch.tensor([wrong, NAN, 2.0]).to(storage)
        refusal = judged(actual, expected, MASKED)
        assert refusal.status is Status.FAIL
        assert refusal.worst is not None
        assert (refusal.worst.index, refusal.worst.error_bound_units) == ((0,), INF)
        assert refusal.worst.expected == pytest.approx(0.1, rel=0.1)


def test_a_masked_value_does_not_hold_where_the_range_is_ambiguous() -> None:
    expected = expect(f64(NAN, NAN), f64(INF, NAN))
    assert inside(torch.tensor([5.0, NAN]), expected, MASKED) == [True, True]


def test_beside_an_infinite_input_nan_is_accepted_for_the_masked_value_unless_forbidden() -> None:
    expected = expect(f64(NAN, NAN, NAN), 0.0, infinite_input=True)
    actual = torch.tensor([NAN, 0.1, 0.0])
    assert inside(actual, expected, MASKED) == [True, True, False]
    assert inside(actual, expected, Contract(masked_value=0.1, nan="forbid")) == [False, True, False]


def test_a_masked_value_of_an_integer_output_changes_nothing() -> None:
    expected = expect(f64(NAN, 4.0), 0.0, "int32")
    assert inside(torch.tensor([7, 4], dtype=torch.int32), expected, MASKED) == [True, True]


def test_saturation_accepts_the_largest_number_of_the_sign_for_an_infinity() -> None:
    saturate = Contract(infinity="saturate")
    for dtype, largest in (("float32", LARGEST), ("float16", 65504.0), ("float8_e5m2", 57344.0)):
        storage = getattr(torch, dtype)
        actual = torch.tensor([largest, -largest, -largest, largest, INF, largest / 2]).to(storage)
        expected = expect(f64(INF, -INF, INF, -INF, INF, INF), 0.0, dtype)
        assert inside(actual, expected, saturate) == [True, True, False, False, True, False]
        exact = [False] * 4 + [True, False]
        assert inside(actual, expected) == exact
        # A finite number that only the storage dtype cannot hold is no other case.
        overflown = expect(f64(largest * 2, -largest * 2), 1e-3, dtype)
        both = torch.tensor([largest, -largest]).to(storage)
        assert inside(both, overflown) == [False, False]
        verdict = judged(both, overflown, saturate)
        assert (verdict.status, verdict.flags, verdict.worst) == (Status.PASS, (), None)


def test_a_format_without_infinities_overflows_to_nan_or_to_its_largest_number() -> None:
    """OFP8: a conversion to E4M3 saturates or gives NaN; 464 is the middle between 448 and the next, 480."""
    values = [464.0, 464.5, -1e6, INF, 440.0, 448.0]
    nan = torch.full((6,), NAN).to(torch.float8_e4m3fn)
    largest = torch.tensor([448.0, 448.0, -448.0, 448.0, 448.0, 448.0]).to(torch.float8_e4m3fn)
    expected = expect(f64(*values), 0.0, "float8_e4m3fn")
    assert bool(nan.float().isnan().all())
    assert inside(nan, expected) == [False, True, True, True, False, False]
    assert inside(largest, expected) == [True, True, True, True, True, True]
    saturate = Contract(infinity="saturate")
    assert inside(nan, expected, saturate) == [False] * 6
    assert inside(largest, expected, saturate) == [True] * 6
    assert inside(nan[:1], expect(f64(464.0), 0.01, "float8_e4m3fn")) == [True]


SIGNED = Contract(signed_zero=True)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "float8_e4m3fn"])
def test_the_sign_of_a_zero_counts_where_it_is_certain(dtype: str) -> None:
    tiny = 1e-320 if dtype == "float64" else 1e-60
    value = f64(0.0, -0.0, tiny, -tiny, 0.0, -0.0, tiny, 1.0)
    bound = f64(0.0, 0.0, tiny / 4, tiny / 4, tiny, tiny, tiny * 2, 0.0)
    if dtype == "float64":  # which holds the tiny numbers
        value, bound = value[[0, 1, 4, 5, 7]], bound[[0, 1, 4, 5, 7]]
    zeros = torch.where(value.abs() == 1, 1.0, torch.zeros_like(value))
    storage = getattr(torch, dtype)
    certain = (bound == 0) | (bound < value.abs())
    for sign in (1.0, -1.0):
        actual = torch.where(value == 1, value, zeros.copysign(torch.tensor(sign))).to(storage)
        right = ~certain | (torch.signbit(value) == (sign < 0)) | (value == 1)
        assert inside(actual, expect(value, bound, dtype), SIGNED) == right.tolist()
        assert all(inside(actual, expect(value, bound, dtype)))


def test_a_zero_of_the_wrong_sign_is_a_wrong_value_and_says_so() -> None:
    verdict = judged(torch.tensor([1.0, -0.0]), expect(f64(1.0, 0.0), 0.0), SIGNED)
    assert (verdict.status, verdict.kind) == (Status.FAIL, Kind.VALUE)
    assert "output 0 at [1] is -0, expected 0" in verdict.message
    assert verdict.hint == "every wrong element is a zero of the wrong sign"
    right = judged(torch.tensor([1.0, 0.0]), expect(f64(1.0, 0.0), 0.0), SIGNED)
    assert (right.status, right.worst) == (Status.PASS, None)


def test_policies_hold_in_every_piece_of_a_large_tensor() -> None:
    size = 2 * CHUNK_ELEMENTS + 100
    value = torch.ones(size, dtype=torch.float64)
    value[-1], value[-2], value[-3], value[-4] = NAN, INF, -0.0, NAN
    contract = Contract(masked_value=-2.0, infinity="saturate", signed_zero=True)
    expected = expect(value, 0.0, expects_nan=torch.arange(size) == size - 4)
    actual = value.float()
    actual[-1], actual[-2] = -2.0, LARGEST
    assert judged(actual, expected, contract).status is Status.PASS
    for position, wrong in ((-1, 0.0), (-2, -LARGEST), (-3, 0.0)):
        changed = actual.clone()
        changed[position] = wrong
        verdict = judged(changed, expected, contract)
        assert verdict.worst is not None
        assert verdict.worst.index == (size + position,)


def test_a_plain_output_has_no_masks_whatever_the_contract_says() -> None:
    strict = Contract(nan="forbid", masked_value=0.0, infinity="saturate", signed_zero=True)
    assert accept(expect(f64(1.0, 2.0), 0.1), strict).outputs[0].masks is None
    assert not inside(torch.tensor([NAN, 2.0]), expect(f64(1.0, 2.0), 0.1), strict)[0]


def test_the_masked_value_is_no_answer_where_an_input_nan_is_due() -> None:
    expected = expect(f64(NAN, NAN), 0.0, expects_nan=torch.tensor([True, False]))
    both = Contract(masked_value=0.1, nan="propagate")
    assert inside(torch.tensor([0.1, 0.1]), expected, both) == [False, True]
    assert inside(torch.tensor([NAN, NAN]), expected, both) == [True, False]
