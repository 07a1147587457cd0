"""Nothing recorded is lost: 10,000 cases with a kernel that crashes, and a judge that is killed 200 times."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuemu.checking import make_campaign
from gpuemu.model.case import Plan
from gpuemu.model.record import Record
from gpuemu.model.verdict import Kind, Status
from gpuemu.ops.registry import get_op
from gpuemu.planning.plan import make_plan
from gpuemu.resuming import resume
from gpuemu.run.worker import Job, WorkerCaller
from gpuemu.store.sqlite import Store
from report_builders import make_run

CASES = 10_000
MOMENTS = 200
BUDGET = 400
CRASHING = """
import os, random, torch
chance = random.Random()
def relu(x):
    if chance.random() < 0.01: os.abort()
    return torch.relu(x)
"""


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "kernel.py").write_text(CRASHING + "def right(x): return torch.relu(x)\n")
    monkeypatch.chdir(tmp_path)
    yield "kernel.py"


def make_long_plan(cases: int) -> Plan:
    """Plans of many seeds, one after another: a single one of this size takes long to cover."""
    plans = [make_plan(get_op("relu"), budget=250, seed=seed, exact=True) for seed in range(cases // 250)]
    return Plan("relu", "covering", 0, tuple(case for plan in plans for case in plan.cases))


@pytest.mark.slow
def test_every_case_has_a_record_though_one_call_in_a_hundred_crashes(kernel: str, tmp_path: Path) -> None:
    op, plan = get_op("relu"), make_long_plan(CASES)
    assert len(plan.cases) == CASES
    statuses: dict[str, int] = {}
    with WorkerCaller(hidden=()) as caller, Store(tmp_path / "store") as store:
        loaded = caller.load(Job(f"{kernel}::relu", op=op.name, inputs=("x",)))
        store.open_run(make_run("run"))
        for record in make_campaign(op, loaded, "cpu", caller=caller).run(plan):
            store.append("run", record)
        restarts = caller.restarts
    with Store(tmp_path / "store") as store:
        records = store.load_records("run")
    for record in records:
        name = str(record.verdict.kind or record.verdict.status)
        statuses[name] = statuses.get(name, 0) + 1
    sys.stderr.write(f"{len(records)} records of {CASES} cases, {restarts} restarts: {statuses}\n")
    assert [record.index for record in records] == list(range(CASES))
    assert all(is_right_or_lost(record) for record in records)
    assert restarts >= CASES / 200


def is_right_or_lost(record: Record) -> bool:
    verdict = record.verdict
    # A crash while an earlier case is called again is that guard's.
    return verdict.status is Status.PASS or verdict.kind == Kind.CRASH or "SIGABRT" in verdict.message


@pytest.mark.slow
def test_a_judge_killed_at_any_moment_loses_nothing_and_repeats_nothing(kernel: str, tmp_path: Path) -> None:
    store = tmp_path / ".gpuemu"
    chance = random.Random(4)  # noqa: S311
    told: list[int] = []
    for moment in range(MOMENTS):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            judge(f"{kernel}::right", store, writing, started=moment > 0)
        os.close(writing)
        time.sleep(chance.uniform(0.05, 6.0))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reading, "rb") as said:
            told += [int(line) for line in said.read().split()]
        if (store / "runs.sqlite").exists():
            with Store(store) as opened:
                kept = [r.index for run, _ in opened.list_runs(1) for r in opened.load_records(run.id)]
            assert set(told) <= set(kept)
        assert len(told) == len(set(told)), "a case with a record was run again"
    report = resume("latest", store=store)
    sys.stderr.write(f"{MOMENTS} kills, {len(set(told))} cases reported before the last of them\n")
    assert report.passed
    assert [record.index for record in report.records] == list(range(BUDGET))


def judge(target: str, store: Path, written: int, started: bool) -> None:
    """In a forked child: start or go on, and say each case's number once it is reported."""
    from gpuemu.checking import check

    def tell(done: int, total: int, record: Record) -> None:
        del done, total
        os.write(written, f"{record.index}\n".encode())
        time.sleep(0.02)

    try:
        if started and (store / "runs.sqlite").exists():
            with Store(store) as opened:
                started = bool(opened.list_runs(1))
        if started and (store / "runs.sqlite").exists():
            resume("latest", store=store, progress=tell)
        else:
            check(target, "relu", budget=BUDGET, seed=3, store=store, progress=tell)
    finally:
        os._exit(0)
