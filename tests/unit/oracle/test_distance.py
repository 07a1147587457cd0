"""Scores against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_cases import INF, NAN, expect, f64
from rounding_truth import FORMATS, Format

from gpuemu.model.expected import Expected
from gpuemu.model.op import Contract
from gpuemu.oracle.bounds import CHUNK_ELEMENTS, accept
from gpuemu.oracle.distance import CORRECTLY_ROUNDED, Measurement, measure


def _measure(actual: torch.Tensor, expected: Expected, nan: str = "report") -> Measurement:
    contract = Contract(nan=nan)  # type: ignore[arg-type]
    return measure(actual, expected.outputs[0], accept(expected, contract).outputs[0])


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_score_is_the_residual_over_the_bound(form: Format, data: st.DataObject) -> None:
    """Exact while the error is small; within 2^-10 of itself where it is hundreds of ulp (documented)."""
    power = data.draw(st.integers(1, 2**form.exponent_bits - 2)) << form.mantissa_bits
    ordinal = min(power + data.draw(st.integers(-2, 2)), form.largest)
    step = data.draw(st.integers(-6, 6))
    fraction = data.draw(st.integers(-(1 << 20), 1 << 20))
    base = form.value(max(0, min(form.largest, ordinal + step)))
    r = base + fraction * (form.value(ordinal + 1) - form.value(ordinal)) / (1 << 21)
    assert Fraction(float(r)) == r
    residual = form.residual(ordinal, r)
    bound = float(form.value(ordinal + 1) - form.value(ordinal)) * data.draw(st.sampled_from([0.01, 1.0, 3.0]))
    found = _measure(form.tensor([ordinal]), expect(f64(float(r)), bound, form.name)).score
    truth = float(residual / Fraction(bound))
    assert found == pytest.approx(truth, rel=1e-12, abs=1e-9), (ordinal, r)


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_far_errors_are_scored_within_a_thousandth(form: Format) -> None:
    one = form.bias << form.mantissa_bits
    for ordinal, r in ((one, -40.0), (one + 1, 300.0), (0, 1.0), (-one, 1.0), (one, 0.25)):
        found = _measure(form.tensor([ordinal]), expect(f64(r), 1e-3, form.name)).score
        assert found == pytest.approx(float(form.residual(ordinal, Fraction(r)) / Fraction(1e-3)), rel=1e-3)


def test_correctly_rounded_outputs_have_no_error() -> None:
    value = f64(1.1, -2.7, 0.0, 1e-46)
    assert _measure(value.float(), expect(value, 0.0)) is CORRECTLY_ROUNDED
    assert (
        _measure(-torch.zeros(2), expect(f64(0.0, 0.0), 0.0)) is CORRECTLY_ROUNDED
    )  # the sign of zero is free


def test_a_bound_of_zero_gives_infinity_or_nothing() -> None:
    expected = expect(f64(1.0, 3.0), 0.0)
    assert _measure(torch.tensor([1.0, 3.5]), expected).score == INF
    tie = expect(f64(2049.0), 0.0, "float16")
    for neighbour in (2048.0, 2050.0):
        assert _measure(torch.tensor([neighbour]).half(), tie).score == 0
    assert _measure(torch.tensor([2052.0]).half(), tie).score == INF


def test_the_worst_element_is_described() -> None:
    value = f64(1.0, 2.0, 4.0)
    actual = torch.tensor([1.0, 2.5, 4.1])
    found = _measure(actual, expect(value, f64(0.1, 0.1, 10.0)))
    assert (found.index, found.actual, found.expected, found.bound) == (1, 2.5, 2.0, 0.1)
    assert found.exceeding == 1
    assert found.score == pytest.approx(5.0)
    assert found.error_ulp == 0.5 / 2.0**-22  # one float32 ulp at 2 is 2^-22
    assert found.max_absolute == 0.5


def test_errors_count_every_element_that_is_not_correctly_rounded() -> None:
    found = _measure(torch.tensor([1.0 + 2.0**-23, 100.5]), expect(f64(1.0, 100.0), f64(1e-6, 10.0)))
    assert found.max_absolute == 0.5
    assert found.max_ulp == 0.5 / 2.0**-17  # one ulp in [64, 128)
    assert found.exceeding == 0
    assert 0 < found.score <= 1
    assert found.index == 0


def test_passing_scores_never_exceed_one_and_failing_ones_always_do() -> None:
    generator = torch.Generator().manual_seed(3)
    value = torch.randn(4000, generator=generator, dtype=torch.float64)
    bound = value.abs() * 1e-6
    for factor in (1.0, 1 + 2.0**-52, 1 - 2.0**-53, 1.5):
        actual = value + bound * factor  # float64 storage: the residual is the whole error
        output = accept(expect(value, bound, "float64")).outputs[0]
        inside = bool(output.contains(actual).all())
        score = _measure(actual, expect(value, bound, "float64")).score
        assert (score <= 1) == inside


def test_the_score_of_a_far_error_never_contradicts_the_decision() -> None:
    """Far errors are scored within a thousandth only; the side of 1 is decided by the interval."""
    refused = _measure(torch.tensor([0.0]), expect(f64(1.0), 1 - 2.0**-40))  # true residual 1 - 2^-150
    assert refused.exceeding == 1
    assert 1 < refused.score < 1.001
    accepted = _measure(torch.tensor([1.0]), expect(f64(-513.0), 514 - 2.0**-25))  # exactly the true residual
    assert accepted.exceeding == 0
    assert accepted.score == 1


def test_nan_counts_as_an_infinite_error_even_beside_a_large_one() -> None:
    found = _measure(torch.tensor([1.0, NAN, 9.0]), expect(f64(1.0, 2.0, 3.0), 0.01))
    assert (found.exceeding, found.nonfinite, found.nan) == (2, 1, 1)
    assert (found.score, found.index) == (INF, 1)
    assert found.max_absolute == INF
    assert found.actual != found.actual


def test_unjudged_elements_add_nothing() -> None:
    expected = expect(f64(1.0, 2.0, NAN), f64(0.1, INF, 0.0))
    found = _measure(torch.tensor([1.05, NAN, 7.0]), expected)
    assert found.exceeding == 0
    assert found.max_absolute == pytest.approx(0.05, rel=1e-5)
    far = _measure(torch.tensor([1.0, 1e30, NAN]), expected)
    assert (far.exceeding, far.score, far.max_absolute) == (0, 0.0, 0.0)


def test_infinity_is_scored_from_the_threshold_that_rounds_to_it() -> None:
    ulp = 2.0**104
    largest = (2 - 2.0**-23) * 2.0**127
    value = f64(largest - ulp)
    found = _measure(torch.tensor([INF]), expect(value, ulp))
    assert (found.exceeding, found.nonfinite) == (1, 1)
    assert found.score == 1.5  # from largest - ulp to largest + ulp/2
    assert _measure(torch.tensor([INF]), expect(value, 2 * ulp)).score == 0.75


def test_ambiguous_integers_have_no_error_and_others_an_infinite_one() -> None:
    value = torch.tensor([5, 5, 5])
    expected = expect(value, f64(1.0, 0.0, 1.0), "int64")
    assert _measure(torch.tensor([6, 5, 4]), expected).score == 0
    wrong = _measure(torch.tensor([5, 6, 5]), expected)
    assert (wrong.exceeding, wrong.score, wrong.index) == (1, INF, 1)
    assert _measure(torch.tensor([8, 5, 5]), expected).score == 3.0


def test_neighbouring_huge_integers_are_told_apart() -> None:
    """float64 cannot tell 2^60 from 2^60 + 1, int64 can."""
    found = _measure(torch.tensor([2**60 + 1]), expect(torch.tensor([2**60]), 0.0, "int64"))
    assert (found.exceeding, found.score) == (1, INF)


def test_pieces_of_a_large_tensor_give_the_figures_of_the_whole() -> None:
    generator = torch.Generator().manual_seed(2)
    size = 3 * CHUNK_ELEMENTS + 11
    value = torch.randn(size, generator=generator, dtype=torch.float64)
    bound = value.abs() * 2.0**-20
    actual = (value * (1 + 2.0**-22)).float()
    at = CHUNK_ELEMENTS + 7
    actual[at] = float(value[at]) * 1.5
    actual[-1], actual[5] = NAN, INF
    value[9], bound[10] = NAN, INF
    taint = value.isnan()
    expected = expect(value.view(-1, 1), bound.view(-1, 1), "float32", expects_nan=taint.view(-1, 1))
    found = _measure(actual.view(-1, 1), expected)
    assert (found.exceeding, found.nonfinite, found.nan, found.swallowed) == (3, 2, 1, 1)
    assert found.index == size - 1
    assert _measure(actual.view(-1, 1), expected, "propagate").exceeding == 4
    actual[-1], actual[5] = value[-1], value[5]
    found = _measure(actual.view(-1, 1), expected)
    assert (found.exceeding, found.index) == (1, at)


def test_the_candidates_tensor_is_not_changed() -> None:
    actual = torch.tensor([1.0, INF, -5.0], dtype=torch.float64)
    before = actual.clone()
    _measure(actual, expect(f64(2.0, 1.0, -5.0), 0.5, "float64"))
    assert torch.equal(actual, before)
