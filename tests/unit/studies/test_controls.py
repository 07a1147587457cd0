"""Study "controls": its items, one row, and what the summary and the calibration make of it."""

from __future__ import annotations

from typing import Any

import pytest

from gpuemu import calibrating
from gpuemu.errors import UsageError
from gpuemu.oracle.calibration import published_threshold
from gpuemu.studies import controls
from gpuemu.studies.cells import CASES_PER_CELL

ITEM = "relu/float32/bell/0"


@pytest.fixture(scope="module")
def row() -> dict[str, Any]:
    return controls.run_row(ITEM, "cpu", 0)


def test_items_go_round_by_round_over_all_ops() -> None:
    items = list(controls.make_items("cpu", 2, ["relu", "softmax"]))
    assert items[:3] == ["relu/float32/uniform/0", "softmax/float32/uniform/0", "relu/float16/uniform/0"]
    assert len(set(items)) == len(items)
    half = len(items) // 2
    assert [item.replace("/0", "/1") for item in items[:half]] == items[half:]


def test_an_op_without_controls_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no control of nothing_of_ours runs on cpu"):
        list(controls.make_items("cpu", 1, ["nothing_of_ours"]))


def test_a_row_counts_every_control_on_every_case(row: dict[str, Any]) -> None:
    names = [control.name for control in controls.controls_of("relu", "cpu", "float32")]
    assert list(row["implementations"]) == names
    for counts in row["implementations"].values():
        assert counts["statuses"] == {"pass": CASES_PER_CELL}
        assert list(counts["scores"]) == ["P0"]
    assert row["alarms"] == []
    assert row["absolute_errors"] == [0.0] * CASES_PER_CELL * len(names)  # relu rounds nothing


def test_only_published_value_classes_give_absolute_errors() -> None:
    assert controls.run_row("relu/float32/negative/0", "cpu", 0)["absolute_errors"] == []


def test_a_looser_control_is_scored_under_the_default_too() -> None:
    row = controls.run_row("swiglu/float16/uniform/0", "cpu", 0)
    assert "under_default" in row["implementations"]["eager"]
    assert "under_default" not in row["implementations"]["naive"]


def test_the_summary_counts_runs_and_failures(row: dict[str, Any]) -> None:
    alarm = {
        "implementations": {"where": {"statuses": {"fail": 1, "unsupported": 2}, "scores": {}}},
        "alarms": [{"implementation": "where"}],
        "absolute_errors": [],
    }
    rows = {ITEM: row, "relu/float32/ones/1": alarm, "relu/float32/ones/0": controls.failed_row("it broke")}
    document = controls.summarise(rows, 5, "cpu", 7, 1.234)
    passed = CASES_PER_CELL * len(row["implementations"])
    assert document["statuses"] == {"pass": passed, "fail": 1, "unsupported": 2}
    assert (document["runs"], document["judged"], document["false_alarms"]) == (passed + 3, passed + 1, 1)
    assert (document["items"], document["items_planned"], document["seed"]) == (3, 5, 7)
    assert document["failures"] == {"relu/float32/ones/0": "it broke"}
    assert document["alarms"] == alarm["alarms"]
    assert list(document["by_profile"]) == ["P0 float32"]
    assert list(document["by_op"]) == ["relu float32"]
    assert list(document["by_value_class"]) == ["bell float32"]
    assert "relu where" in document["by_implementation"]
    assert document["under_default"] == {}


def test_a_calibration_is_made_of_the_same_rows(row: dict[str, Any]) -> None:
    (entry,) = calibrating.summarise_scores({ITEM: row})
    assert (entry.profile, entry.dtype, entry.largest, entry.constant) == ("P0", "float32", 0.0, 1.0)
    assert entry.implementations == len(row["implementations"])
    errors = {**row, "absolute_errors": [1.0, 2.0]}
    rows = {ITEM: errors, "relu/float16/bell/0": {**row, "absolute_errors": []}}
    assert calibrating.summarise_errors(rows) == {"relu float32": published_threshold([1.0, 2.0])}
