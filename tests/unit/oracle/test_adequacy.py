"""Trivial predictors on planted cases and plans."""

from __future__ import annotations

import pytest
import torch
from oracle_cases import INF, NAN, expect, f64

from gpuemu.model.expected import Expected, ExpectedOutput
from gpuemu.model.verdict import Adequacy, Status, Verdict
from gpuemu.oracle.adequacy import PREDICTORS, rejected, summarise
from gpuemu.oracle.bounds import accept

X = torch.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])


def _case(
    value: torch.Tensor, bound: float | torch.Tensor = 1e-6, dtype: str = "float32", **inputs: torch.Tensor
) -> Verdict:
    """The verdict of a passing case on this reference, with its predictors."""
    expected = expect(value, bound, dtype)
    refused, exempt = rejected(inputs, expected, accept(expected))
    return Verdict(Status.PASS, rejected_predictors=refused, exempt_predictors=exempt)


def test_an_ordinary_case_rejects_all_four() -> None:
    verdict = _case(X.double() ** 3, x=X)
    assert verdict.rejected_predictors == PREDICTORS
    assert summarise([verdict]) == Adequacy(rejected=PREDICTORS)


def test_a_copy_is_exempt_from_the_input_predictor() -> None:
    verdict = _case(X.double(), 0.0, x=X)
    assert verdict.exempt_predictors == ("input",)
    adequacy = summarise([verdict, verdict])
    assert adequacy == Adequacy(rejected=("zeros", "mean", "constant"), exempt=("input",))
    assert adequacy.is_sufficient


def test_an_op_that_is_the_identity_on_one_case_only_is_exempt_there_only() -> None:
    """relu on positive inputs returns them; another case must reject the input."""
    positive, mixed = X.abs(), X
    cases = [_case(x.double().relu(), 0.0, x=x) for x in (positive, mixed)]
    assert "input" in cases[0].exempt_predictors
    assert "input" in cases[1].rejected_predictors
    assert summarise(cases).is_sufficient
    assert "input" in summarise(cases[:1]).exempt


def test_a_reference_that_is_zero_in_every_case_is_insufficient() -> None:
    zero = _case(torch.zeros(2, 3, dtype=torch.float64), x=X)
    adequacy = summarise([zero, zero])
    assert not adequacy.is_sufficient
    assert {"zeros", "constant", "mean"} <= set(adequacy.accepted)


def test_one_case_that_tells_is_enough() -> None:
    zero = _case(torch.zeros(2, 3, dtype=torch.float64), x=X)
    good = _case(X.double() ** 3, x=X)
    assert summarise([zero, good, zero]).is_sufficient


def test_the_input_is_only_exempt_if_zeros_were_rejected() -> None:
    """A copy of zeros tells nothing about copying."""
    zeros = torch.zeros(2, 3)
    verdict = _case(zeros.double(), 0.0, x=zeros)
    assert verdict.exempt_predictors == ("input",)
    assert "input" in summarise([verdict]).accepted


def test_the_first_float_input_of_the_outputs_shape_is_tried_in_the_outputs_dtype() -> None:
    value = X.double()
    mask, other, index = X > 0, torch.ones(3), torch.ones(2, 3, dtype=torch.int64)
    none = rejected({"w": other, "m": mask, "i": index}, expect(value), accept(expect(value)), ("input",))
    assert none == ((), ("input",))
    first_wins = rejected({"y": 2 * X, "x": X}, expect(value), accept(expect(value)), ("input",))
    assert first_wins == (("input",), ())
    rounded = expect(torch.full((2,), 1 / 3, dtype=torch.float64), 1e-6, "float16")
    third = {"x": torch.full((2,), 1 / 3)}
    assert rejected(third, rounded, accept(rounded), ("input",)) == ((), ("input",))


def test_an_input_with_nan_equals_a_reference_with_the_same_nan() -> None:
    x = torch.tensor([1.0, NAN, 2.0])
    expected = expect(x.double(), 0.0, expects_nan=x.isnan())
    assert rejected({"x": x}, expected, accept(expected), ("input",)) == ((), ("input",))


def test_the_mean_is_taken_over_the_last_axis() -> None:
    rows = torch.tensor([[2.0, 2.0], [5.0, 5.0]], dtype=torch.float64)
    assert "mean" not in _case(rows).rejected_predictors  # constant rows are their mean
    assert "mean" in _case(rows.t()).rejected_predictors
    assert "constant" in _case(rows).rejected_predictors
    assert "mean" in _case(torch.ones(5, 1, dtype=torch.float64)).exempt_predictors
    assert "mean" in _case(torch.tensor(3.0, dtype=torch.float64)).exempt_predictors


def test_a_constant_output_accepts_the_constant() -> None:
    verdict = _case(torch.full((2, 3), 7.0, dtype=torch.float64))
    assert "constant" not in verdict.rejected_predictors + verdict.exempt_predictors
    assert "constant" in _case(f64(7.0)).exempt_predictors  # a single element


def test_scalar_outputs_are_exempt_from_what_they_cannot_show() -> None:
    scalar = _case(torch.tensor(3.0, dtype=torch.float64), x=X)
    adequacy = summarise([scalar, scalar])
    assert adequacy == Adequacy(rejected=("zeros",), exempt=("input", "mean", "constant"))
    assert adequacy.is_sufficient


def test_nan_and_infinity_do_not_stand_in_for_discrimination() -> None:
    """Mean and constant are made from finite elements: a NaN prediction would be rejected by any case."""
    value = f64(NAN, 5.0, 5.0, 5.0)
    expected = expect(value, 1e-6, expects_nan=value.isnan())
    assert rejected({}, expected, accept(expected), ("mean", "constant")) == ((), ())
    infinite = expect(f64(INF, INF), 0.0)
    assert rejected({}, infinite, accept(infinite), ("zeros",)) == (("zeros",), ())


def test_unjudged_elements_reject_nothing() -> None:
    verdict = _case(X.double() ** 3, torch.full((2, 3), INF, dtype=torch.float64), x=X)
    assert verdict.rejected_predictors == ()
    assert not summarise([verdict]).is_sufficient


def test_empty_outputs_are_exempt_and_establish_nothing() -> None:
    empty = _case(torch.empty(0, 3, dtype=torch.float64), x=torch.empty(0, 3))
    assert empty.exempt_predictors == PREDICTORS
    assert summarise([empty]).accepted == ("zeros", "input")
    assert summarise([empty, _case(X.double() ** 3, x=X)]).is_sufficient


def test_only_the_predictors_asked_for_are_tried() -> None:
    expected = expect(X.double() ** 3)
    assert rejected({"x": X}, expected, accept(expected), ("mean",)) == (("mean",), ())
    assert rejected({"x": X}, expected, accept(expected), ()) == ((), ())
    with pytest.raises(ValueError, match="unknown predictor 'ones'"):
        rejected({"x": X}, expected, accept(expected), ("ones",))


@pytest.mark.parametrize("dtype", ["bool", "int64", "uint8", "float8_e4m3fn"])
def test_other_dtypes_have_predictors_too(dtype: str) -> None:
    stored = getattr(torch, dtype)
    value = torch.tensor([[0, 1, 1], [1, 0, 0]])
    value = value.double() if stored.is_floating_point else value.to(stored)
    assert set(_case(value, 0.0, dtype).rejected_predictors) == {"zeros", "mean", "constant"}


def test_one_output_that_refuses_is_enough() -> None:
    zero = ExpectedOutput(f64(0.0, 0.0), f64(0.0, 0.0), "float32")
    other = ExpectedOutput(f64(1.0, 2.0), f64(0.0, 0.0), "float32")
    both = Expected((zero, other), "P0")
    assert rejected({}, both, accept(both), ("zeros",)) == (("zeros",), ())


def test_a_reference_that_failed_says_nothing() -> None:
    failed = Expected((), "P0", problem="no")
    assert rejected({"x": X}, failed, accept(failed)) == ((), ())


def test_cases_that_the_candidate_did_not_answer_do_not_count() -> None:
    good = _case(X.double() ** 3, x=X)
    for status in (Status.ERROR, Status.UNSUPPORTED, Status.INVALID):
        unanswered = Verdict(status, rejected_predictors=good.rejected_predictors)
        assert not summarise([unanswered]).is_sufficient
    copy = _case(X.double(), 0.0, x=X)
    assert summarise([copy, Verdict(Status.ERROR), Verdict(Status.FAIL)]).exempt == ("input",)


def test_a_run_without_cases_is_insufficient() -> None:
    assert summarise([]).accepted == PREDICTORS
