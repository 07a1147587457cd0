"""The hostile tests' own eyes: what a candidate could leave or damage is seen."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import project
import pytest


@pytest.fixture
def candidate(tmp_path: Path) -> project.Project:
    """A project with a harmless candidate in it."""
    return project.make_project("input_restored", tmp_path / "project")


def test_an_untouched_project_shows_no_damage(candidate: project.Project) -> None:
    assert project.damage(candidate, None) == []


@pytest.mark.parametrize("name", ["marker.txt", "tolerance.txt", "input_restored.py"])
def test_a_changed_or_deleted_file_is_seen(candidate: project.Project, name: str) -> None:
    (candidate.folder / name).write_text("other")
    assert project.damage(candidate, None) == [f"{name} was changed"]
    (candidate.folder / name).unlink()
    assert project.damage(candidate, None) == [f"{name} was changed"]


def test_a_planted_module_is_seen(candidate: project.Project) -> None:
    (candidate.folder / "sitecustomize.py").touch()
    assert project.damage(candidate, None) == ["sitecustomize.py was planted"]


def test_a_marked_process_is_seen_and_ended(candidate: project.Project) -> None:
    before = project.children()
    sleep = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    environment = project.make_environment(candidate)
    process = subprocess.Popen(sleep, env=environment, start_new_session=True, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    left = project.leftovers(candidate, before, shield=0)
    assert [pid for pid, _ in left] == [process.pid]
    project.end(candidate, before)
    assert project.leftovers(candidate, before, shield=0) == []
    process.stdout.close()


def test_a_store_that_says_the_same_is_intact(candidate: project.Project) -> None:
    assert project.damage(candidate, make_run(candidate)) == []


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ("DELETE FROM records WHERE idx = 3", "the store's record 3 is missing or another"),
        ("UPDATE records SET status = 'pass' WHERE idx = 5", "the store's record 5 is missing or another"),
        ("UPDATE records SET record = '{}' WHERE idx = 0", "the store's record 0 is missing or another"),
        ("DROP TABLE records", "the run store cannot be read: no such table: records"),
    ],
)
def test_a_changed_store_is_seen(candidate: project.Project, change: str, seen: str) -> None:
    report = make_run(candidate)
    with sqlite3.connect(candidate.folder / ".gpuemu" / "runs.sqlite") as store:
        store.execute(change)
    assert project.damage(candidate, report) == [seen]


def test_a_damaged_store_is_seen_without_a_report(candidate: project.Project) -> None:
    make_run(candidate)
    assert project.damage(candidate, None) == []
    (candidate.folder / ".gpuemu" / "runs.sqlite").write_bytes(b"pass" * 1000)
    assert project.damage(candidate, None) == ["the run store cannot be read: file is not a database"]


def test_a_report_without_all_records_is_seen(candidate: project.Project) -> None:
    report = make_run(candidate)
    report["records"].pop()
    assert project.damage(candidate, report) == ["11 of 12 cases have a record"]


def make_run(candidate: project.Project) -> dict[str, Any]:
    """A store with a failing run, and its report."""
    records = [
        {"index": index, "case_id": f"{index:016x}", "verdict": {"status": "fail"}}
        for index in range(project.BUDGET)
    ]
    (candidate.folder / ".gpuemu").mkdir()
    with sqlite3.connect(candidate.folder / ".gpuemu" / "runs.sqlite") as store:
        store.execute("CREATE TABLE records (run_id, role, idx, case_id, status, record)")
        rows = [("r", "case", r["index"], r["case_id"], "fail", json.dumps(r)) for r in records]
        store.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)", rows)
    return {"run": {"id": "r"}, "records": records}
