"""What the terminal says of rows that are missing."""

from __future__ import annotations

from gpuemu.report.study_rows import missing_row_lines


def test_a_complete_study_says_nothing() -> None:
    assert list(missing_row_lines({"failures": {}, "items": 3, "items_planned": 3})) == []


def test_rows_that_failed_and_rows_not_begun_are_said() -> None:
    document = {"failures": {"relu/float32/bell/0": "it broke"}, "items": 2, "items_planned": 3}
    failed, late = (line.plain for line in missing_row_lines(document))
    assert failed == "row relu/float32/bell/0 ended its worker: it broke"
    assert late == "2 of 3 rows: the time was up; the same command with the same --journal goes on"
