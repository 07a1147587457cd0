"""Study P1's rows and summary: one kernel pair measured, the arithmetic of the summary on planted rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuemu.studies import p1, p1_page

BASELINES = ("allclose_1e-5_1e-2", "allclose_1e-2_1e-2", "allclose_1e-4_1e-4", "kernelbench")


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return [p1.run_row(name, "cpu", 0) for name in ("layernorm_numpy", "softmax_llm_buggy")]


def test_a_control_passes_and_a_twin_fails_early(rows: list[dict[str, Any]]) -> None:
    control, twin = rows
    assert {row["cases"] for row in control["dtypes"].values()} == {30}
    assert all(row["cases_to_first_failure"] is None for row in control["dtypes"].values())
    assert control["minimal"] is None
    assert all(row["cases_to_first_failure"] <= 8 for row in twin["dtypes"].values())
    assert twin["minimal"]["dims"] == {"B": 1, "S": 1, "H": 3}


def test_the_baselines_are_measured(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert set(row["baselines"]) == set(BASELINES)
    assert all(rows[1]["baselines"]["allclose_1e-2_1e-2"].values())  # one power-of-two shape hides the bug


def planted(name: str, role: str, positions: tuple[int | None, ...], accepted: bool) -> dict[str, Any]:
    dtypes = {
        str(i): {"cases": 30, "cases_to_first_failure": position, "worst_passing_score": 0.1 * i}
        for i, position in enumerate(positions)
    }
    baselines = {baseline: {"0": True, "1": accepted} for baseline in BASELINES}
    return {"name": name, "role": role, "dtypes": dtypes, "baselines": baselines, "notes": ["n"]}


def test_the_summary_counts() -> None:
    document = p1._summarise(
        [
            planted("a", "buggy", (3, 8), accepted=True),
            planted("b", "buggy", (None, 2), accepted=False),
            planted("c", "buggy", (None, None), accepted=True),
            planted("d", "control", (None, None), accepted=False),
            planted("e", "control", (None, 30), accepted=True),
        ],
        "cpu", 5, 1.0,
    )  # fmt: skip
    assert document["bugs"] == {
        "total": 3, "detected": 2, "detected_in_every_dtype": 1, "max_cases_to_first_failure": 8,
    }  # fmt: skip
    assert document["controls"] == {"total": 2, "false_alarms": 1, "worst_score": 0.1}
    assert document["baselines"]["kernelbench"] == {"accepted_bugs": ["a", "c"], "rejected_controls": ["d"]}
    assert document["cases"] == 300
    assert document["notes"] == ["n"]


def test_the_page_states_the_documents_numbers(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    document = p1._summarise(rows, "cpu", 0, 12.0)
    written = p1_page.write_page(document, tmp_path)
    page = written[0].read_text()
    assert "**1 of 1 bugs found**" in page
    assert "| `softmax_llm_buggy` | buggy | fail: value / fail: " in page
    assert "| `layernorm_numpy` | control | pass / pass / pass |" in page
    assert "B=1 S=1 H=3, float32, uniform" in page
    assert written[1].read_text().startswith("<?xml")
