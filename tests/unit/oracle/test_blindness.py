"""The blindness self-test: an oracle that is made blind must be found out."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu.dtypes import get_dtype, torch_dtype
from gpuemu.model.expected import Expected, ExpectedOutput
from gpuemu.oracle.blindness import examine, quantum, stored_from
from gpuemu.oracle.bounds import Acceptance, accept

FLOATS = ("float32", "float16", "bfloat16")


def expected_of(dtype: str, relative: float = 1e-6) -> Expected:
    value = torch.linspace(-3.0, 3.0, 200, dtype=torch.float64) + 1e-3
    return Expected((ExpectedOutput(value, value.abs() * relative, dtype),), "P0")


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_oracle_as_it_is_passes(dtype: str) -> None:
    expected = expected_of(dtype)
    result = examine(expected, accept(expected))
    assert result.failures == ()
    assert result.probes > 150
    assert len(result.visible) > 40


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("factor", [16.0, 0.0])
def test_a_bound_that_is_too_wide_or_lost_is_found(dtype: str, factor: float) -> None:
    """delta dwarfs half an ulp here, so that a wrong delta shows in every dtype."""
    expected = expected_of(dtype, relative=2.0**-4)
    wrong = replace(expected.outputs[0], bound=expected.outputs[0].bound * factor)
    result = examine(expected, accept(replace(expected, outputs=(wrong,))))
    assert result.failures
    assert ("is accepted" if factor else "is rejected") in result.failures[0]


def test_an_interval_that_always_accepts_zero_is_found() -> None:
    expected = expected_of("float32")
    (accepted,) = accept(expected).outputs
    lower, upper = accepted.lower.clamp(max=0.0), accepted.upper.clamp(min=0.0)
    result = examine(expected, Acceptance((replace(accepted, lower=lower, upper=upper),)))
    assert any("zero" in failure for failure in result.failures)


def test_integers_are_probed_too() -> None:
    value = torch.arange(20)
    output = ExpectedOutput(value, torch.zeros(20, dtype=torch.float64), "int64")
    expected = Expected((output,), "P0")
    assert examine(expected, accept(expected)).failures == ()
    (accepted,) = accept(expected).outputs
    blind = Acceptance((replace(accepted, upper=accepted.upper + 100),))
    assert examine(expected, blind).failures


def test_elements_that_are_not_judged_are_not_probed() -> None:
    value = torch.tensor([1.0, math.nan, math.inf, 2.0], dtype=torch.float64)
    bound = torch.tensor([math.inf, 0.0, 0.0, 1e-6], dtype=torch.float64)
    expected = Expected((ExpectedOutput(value, bound, "float32"),), "P0")
    result = examine(expected, accept(expected))
    assert result.failures == ()
    assert result.probes == 5  # two far, two near, one zero, all of the last element


@settings(deadline=None)
@given(st.floats(-1e4, 1e4), st.sampled_from(FLOATS))
def test_stored_numbers_are_those_of_torch(value: float, name: str) -> None:
    """The rational walk against torch's own conversion and nextafter."""
    dtype = get_dtype(name)
    below, above = (stored_from(Fraction(value), dtype, up) for up in (False, True))
    assert below is not None and above is not None
    assert below <= Fraction(value) <= above
    for number in (below, above):
        assert Fraction(float(torch.tensor(float(number), dtype=torch.float64).to(torch_dtype(name)))) == number
    if below != above:
        stored = torch.tensor(float(below), dtype=torch_dtype(name))
        following = torch.nextafter(stored, torch.tensor(math.inf, dtype=stored.dtype))
        assert Fraction(float(following)) == above
        assert above - below <= quantum(Fraction(value), dtype)
