"""Score distributions and the bound on a false-alarm rate."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuemu.studies.scores import EDGES, Scores, false_alarm_bound, merge_scores


@given(st.lists(st.floats(0, 3), min_size=1, max_size=50), st.floats(0.01, 1.0))
def test_quantiles_bracket_the_sorted_scores(values: list[float], share: float) -> None:
    scores = Scores()
    for value in values:
        scores = scores.with_score(value)
    exact = sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
    assert scores.quantile(share) >= exact or scores.largest == exact
    assert scores.total == len(values)
    assert scores.largest == max(values)


def test_documents_add_up_and_keep_infinity() -> None:
    table: dict[str, object] = {}
    merge_scores(table, "P0", Scores().with_score(0.0).to_json())
    merge_scores(table, "P0", Scores().with_score(math.inf).to_json())
    merged = Scores.from_json(table["P0"])  # type: ignore[arg-type]
    assert merged.counts[0] == 1
    assert merged.counts[len(EDGES)] == 1
    assert math.isinf(merged.largest)


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
