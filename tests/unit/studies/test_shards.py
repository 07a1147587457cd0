"""Sharding a study over processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu.errors import GpuemuError, UsageError
from gpuemu.studies.shards import _deal, run_shards

MODULE = """
import os, sys
from gpuemu.studies.shards import serve

def run_row(item, device, seed):
    print("noise on standard output", flush=True)
    if item == "bad":
        sys.exit("it broke")
    return {"process": os.getpid(), "device": device, "seed": seed}

serve(run_row)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "rows_of_a_study.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "rows_of_a_study"


def test_rows_come_back_whole_and_groups_stay_together(module: str) -> None:
    seen: list[tuple[str, int, int]] = []
    groups = [["a", "b"], ["c"]]
    rows = run_shards(module, groups, "cpu", 7, 2, lambda item, done, total: seen.append((item, done, total)))
    assert set(rows) == {"a", "b", "c"}
    assert rows["a"]["process"] == rows["b"]["process"] != rows["c"]["process"]
    assert rows["c"]["seed"] == 7
    assert [(done, total) for _, done, total in seen] == [(1, 3), (2, 3), (3, 3)]


def test_without_a_number_of_jobs_groups_share_the_cores(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuemu.studies.shards.default_jobs", lambda: 1)
    rows = run_shards(module, [["a"], ["b"]], "cpu", 0)
    assert rows["a"]["process"] == rows["b"]["process"]


def test_a_failed_worker_is_not_silent(module: str) -> None:
    with pytest.raises(GpuemuError, match="it broke"):
        run_shards(module, [["a"], ["bad"]], "cpu", 0, 1)


def test_a_journal_lets_a_stopped_study_go_on(module: str, tmp_path: Path) -> None:
    journal = tmp_path / "folder" / "rows.jsonl"
    first = run_shards(module, [["a"]], "cpu", 0, 1, journal=journal)
    with journal.open("a") as file:
        file.write('{"item": "b", "row"')  # a crash while a row was written
    again = run_shards(module, [["a"], ["b"]], "cpu", 0, 2, journal=journal)
    assert again["a"] == first["a"]
    assert again["b"]["process"] != first["a"]["process"]
    assert run_shards(module, [["a"], ["b"]], "cpu", 0, 2, journal=journal) == again
    with pytest.raises(UsageError, match="another folder"):
        run_shards(module, [["a"]], "cpu", 1, 1, journal=journal)


def test_no_row_is_begun_after_the_time_is_up(module: str) -> None:
    assert run_shards(module, [["a"]], "cpu", 0, 1, minutes=-1.0) == {}


def test_a_row_that_ends_its_worker_can_be_kept_as_failed(module: str) -> None:
    rows = run_shards(module, [["a", "bad", "c"]], "cpu", 0, 1, on_failure=lambda text: {"failure": text})
    assert set(rows) == {"a", "bad", "c"}
    assert "it broke" in rows["bad"]["failure"]
    assert rows["c"]["process"] != rows["a"]["process"]


def test_groups_are_dealt_evenly() -> None:
    assert sorted(map(len, _deal([["a"] * 4, ["b"] * 2, ["c"] * 2, ["d"]], 2))) == [4, 5]
    assert _deal([["a"]], 5) == [["a"]]
