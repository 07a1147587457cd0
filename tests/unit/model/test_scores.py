"""Score distributions."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from gpuemu.model.scores import EDGES, Scores, merge_scores


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
