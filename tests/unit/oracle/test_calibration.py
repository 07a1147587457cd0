"""What a number of correct runs supports."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuemu.oracle.calibration import (
    conformal_rate,
    false_alarm_bound,
    published_threshold,
    raised_constant,
    wilks_runs,
)


@pytest.mark.parametrize(("runs", "wilks"), [(59, 0.05), (299, 0.01), (2995, 0.001), (29956, 0.0001)])
def test_no_alarm_in_wilks_number_of_runs_supports_his_rate(runs: int, wilks: float) -> None:
    """Wilks' one-sided n = ln(0.05) / ln(1 - rate), as ORACLE.md section 6 tabulates it."""
    assert false_alarm_bound(runs) == pytest.approx(wilks, rel=0.02)
    assert false_alarm_bound(runs) <= wilks


def test_alarms_raise_the_bound_as_published() -> None:
    """Clopper-Pearson for 1 of 20 and 10 of 100, one-sided 95 %: 0.2161 and 0.1637 (any binomial table)."""
    assert false_alarm_bound(20, 1) == pytest.approx(0.2161, abs=2e-4)
    assert false_alarm_bound(100, 10) == pytest.approx(0.1637, abs=2e-4)
    assert false_alarm_bound(0) == 1.0


def test_the_constant_may_only_rise() -> None:
    assert raised_constant(0.0) == raised_constant(0.5) == 1.0
    assert raised_constant(0.75) == 1.5


@pytest.mark.parametrize(("rate", "runs"), [(0.05, 59), (0.01, 299), (0.001, 2995), (0.0001, 29956)])
def test_wilks_table(rate: float, runs: int) -> None:
    assert wilks_runs(rate) == runs


def test_the_next_of_exchangeable_runs_exceeds_the_maximum_that_often() -> None:
    """By simulation: the largest of n + 1 exchangeable scores is the last one in 1/(n + 1) of the trials."""
    scores = np.random.default_rng(3).standard_cauchy((20_000, 20))
    observed = float((scores.argmax(axis=1) == 19).mean())
    assert observed == pytest.approx(conformal_rate(19), abs=4 * (0.05 * 0.95 / 20_000) ** 0.5)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60))
def test_the_published_threshold_is_numpys_percentile(errors: list[float]) -> None:
    assert published_threshold(errors) == pytest.approx(1.5 * float(np.percentile(errors, 95)), rel=1e-12)
