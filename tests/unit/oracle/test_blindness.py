"""The blindness self-test of ORACLE.md section 12.4: what must be seen, and what must be let through."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_cases import expect, f64, inside, judged
from rounding_truth import FORMATS, Format

from gpuemu.model.verdict import Status

by_name = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)


def _half_ulp(form: Format, r: Fraction) -> Fraction:
    """Half the spacing of the format at |r|, from its definition."""
    ordinal = _floor(form, abs(r))
    return (form.value(ordinal + 1) - form.value(ordinal)) / 2


def _floor(form: Format, magnitude: Fraction) -> int:
    """Position of the largest stored value not above a magnitude, by bisection over bit patterns."""
    low, high = 0, form.largest
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if form.value(middle) <= magnitude else (low, middle - 1)
    return low


@st.composite
def _references(draw: st.DrawFn, form: Format) -> tuple[float, float]:
    """An expected value within the format's range, and a bound from far below to far above its ulp."""
    ordinal = draw(st.integers(0, form.largest - 1))
    width = form.value(ordinal + 1) - form.value(ordinal)
    r = float(form.value(ordinal) + width * draw(st.integers(0, 64)) / 64)
    bound = float(width) * draw(st.sampled_from([0.0, 2.0**-16, 2.0**-6, 0.3, 1.0, 6.0]))
    return draw(st.sampled_from([r, -r])), bound


@by_name
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_the_nearest_value_four_bounds_away_is_rejected(form: Format, data: st.DataObject) -> None:
    r, bound = data.draw(_references(form))
    exact = Fraction(r)
    distance = 4 * (Fraction(bound) + _half_ulp(form, exact))
    above = _floor(form, abs(exact) + distance)
    if form.value(above) < abs(exact) + distance:
        above += 1
    candidates = [above] if above <= form.largest else []
    below = abs(exact) - distance
    candidates.append(_floor(form, below) if below >= 0 else -_ceiling(form, -below))
    wrong = [n if r >= 0 else -n for n in candidates if abs(n) <= form.largest]
    for ordinal in wrong:
        assert abs(form.value(ordinal) - exact) >= distance
        expected = expect(f64(r), bound, form.name)
        assert inside(form.tensor([ordinal]), expected) == [False]
        assert judged(form.tensor([ordinal]), expected).status is Status.FAIL


def _ceiling(form: Format, magnitude: Fraction) -> int:
    ordinal = _floor(form, magnitude)
    return ordinal if form.value(ordinal) == magnitude else ordinal + 1


@by_name
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_b_every_value_whose_rounding_interval_meets_half_the_bound_is_accepted(
    form: Format, data: st.DataObject
) -> None:
    r, bound = data.draw(_references(form))
    exact, half = Fraction(r), Fraction(bound) / 2
    start = _floor(form, abs(exact)) * (1 if r >= 0 else -1)
    top = form.largest + form.infinite
    met = [n for n in range(max(-top, start - 40), min(top, start + 40) + 1) if form.residual(n, exact) <= half]
    assert met
    accepted = inside(form.tensor(met), expect(f64(*[r] * len(met)), bound, form.name))
    assert accepted == [True] * len(met)
    verdict = judged(form.tensor(met), expect(f64(*[r] * len(met)), bound, form.name))
    assert verdict.status is Status.PASS
    assert verdict.flags == ()  # half the bound is not suspicious yet


@by_name
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_c_zero_is_rejected_wherever_the_expected_value_stands_clear_of_it(
    form: Format, data: st.DataObject
) -> None:
    elements = data.draw(st.lists(_references(form), min_size=1, max_size=10))
    tiny = float(form.value(1)) / 2
    clear = [(r, bound) for r, bound in elements if abs(r) > 2 * (bound + tiny)]
    if not clear:
        return
    rs, bounds = (f64(*column) for column in zip(*clear, strict=True))
    zeros = torch.zeros(len(clear)).to(getattr(torch, form.name))
    assert not any(inside(zeros, expect(rs, bounds, form.name)))
