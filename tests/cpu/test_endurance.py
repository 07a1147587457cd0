"""Nothing recorded is lost: 10,000 cases with a kernel that crashes, and a judge that is killed 200 times."""

from __future__ import annotations

import json
import multiprocessing
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpuemu.checking import check, make_campaign
from gpuemu.cli.app import main
from gpuemu.model.case import Plan
from gpuemu.model.record import WORKER, Record
from gpuemu.model.verdict import Kind, Status
from gpuemu.ops.registry import get_op
from gpuemu.planning.plan import make_plan
from gpuemu.resuming import resume
from gpuemu.run.worker import Job, WorkerCaller
from gpuemu.store.sqlite import LATEST, Store
from report_builders import make_run

CASES = 10_000
MOMENTS = 200
BUDGET = 40  # cases of each run that is killed
START_S, WORK_S = 2.5, 0.6  # a judge's start, and as long after its first case, within which it is killed
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


@dataclass
class Seen:
    """What was known to be kept, by run and index: each record's text, and what judges said they finished."""

    records: dict[tuple[str, int], str] = field(default_factory=dict)
    told: set[tuple[str, int]] = field(default_factory=set)


@pytest.mark.slow
def test_a_judge_killed_at_any_moment_loses_nothing_and_repeats_nothing(
    kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every judge is killed while it works: those that end a run start another, until all moments are over.

    One half of the moments is counted from the judge's start, so that they lie in the start of its worker, in
    the import of the kernel and in the opening of a run; the other half from the first case that it finished,
    among cases, and between the last of a run and the next run's first.
    """
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))  # what killed judges leave there
    store, chance, seen, started = tmp_path / ".gpuemu", random.Random(4), Seen(), time.perf_counter()  # noqa: S311
    context = multiprocessing.get_context("forkserver")  # a fork of this process would share torch's threads
    context.set_forkserver_preload(["gpuemu.checking", "gpuemu.resuming", "pytest", "click.testing"])
    moments = dict.fromkeys(("before the first case", "among cases"), 0)
    for moment in range(MOMENTS):
        reading, writing = context.Pipe(duplex=False)
        process = context.Process(target=judge, args=(f"{kernel}::right", store, writing))
        process.start()
        writing.close()
        if moment % 2 == 0:
            time.sleep(chance.uniform(0.0, START_S))
        else:
            assert reading.poll(60.0), "the judge finished no case"
            time.sleep(chance.uniform(0.0, WORK_S))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL, "the judge ended by itself"
        said = read_all(reading)
        moments["among cases" if said else "before the first case"] += 1
        expect_kept(store, said, seen)
    unfinished = finish(store)
    runs = expect_whole(store, seen)
    seconds = time.perf_counter() - started
    sys.stderr.write(
        f"{MOMENTS} kills {moments} in {seconds:.0f} s: {runs} runs, {unfinished} unfinished then; "
        f"{len(seen.told)} cases reported by the judges killed, {len(seen.records)} records in the end\n"
    )
    assert min(moments.values()) >= MOMENTS // 4
    assert runs > MOMENTS // 50


def judge(target: str, store: Path, said: Connection) -> None:
    """In a process of its own: go on with what is unfinished, start anew, and name each case once reported."""
    while True:
        with Store(store) as opened:
            known = opened.list_runs(1) if (store / "runs.sqlite").exists() else []
        run = ""

        def tell(done: int, total: int, record: Record) -> None:
            nonlocal run
            if not run:
                with Store(store) as opened:
                    run = opened.list_runs(1)[0][0].id
            said.send((run, record.index))

        if known and known[0][1] is None:
            resume(LATEST, store=store, progress=tell)
        else:
            check(target, "relu", budget=BUDGET, store=store, runner=WORKER, progress=tell)


def read_all(reading: Connection) -> list[tuple[str, int]]:
    """What a killed judge said before its end."""
    said = []
    with suppress(EOFError), reading:
        while True:
            said.append(reading.recv())
    return said


def expect_kept(store: Path, said: Sequence[tuple[str, int]], seen: Seen) -> None:
    """After a kill: the store opens, holds what was reported and what it held, and no case was run twice."""
    repeated = seen.records.keys() & set(said)
    assert not repeated, "cases with a record were run again"
    assert len(said) == len(set(said))
    seen.told.update(said)
    if not (store / "runs.sqlite").exists():
        assert not seen.told
        return
    shown = CliRunner().invoke(main, ["runs", "--json"])
    assert shown.exit_code == 0, shown.output
    newest = [one["run"]["id"] for one in json.loads(shown.output)["runs"][:3]]
    with Store(store) as opened:
        kept = {(run, r.index): json.dumps(r.to_json()) for run in newest for r in opened.load_records(run)}
    assert set(said) <= kept.keys(), "cases that were reported have no record"
    before = {key: text for key, text in seen.records.items() if key[0] in newest}
    assert before.items() <= kept.items(), "records were lost or changed"
    seen.records.update(kept)


def finish(store: Path) -> int:
    """Resume what the last judges left as a user would: how many runs that were."""
    with Store(store) as opened:
        unfinished = [run.id for run, status in opened.list_runs(MOMENTS) if status is None]
    for run in unfinished:
        resumed = CliRunner().invoke(main, ["check", "--resume", run, "--quiet"])
        assert resumed.exit_code == 0, resumed.output
    return len(unfinished)


def expect_whole(store: Path, seen: Seen) -> int:
    """Every run is finished and has each case once, with the record that was seen of it; how many runs."""
    with Store(store) as opened:
        runs = opened.list_runs(10 * MOMENTS)
        kept = {run.id: opened.load_records(run.id) for run, _ in runs}
    assert {status for _, status in runs} == {Status.PASS}
    assert all([r.index for r in records] == list(range(BUDGET)) for records in kept.values())
    texts = {(run, r.index): json.dumps(r.to_json()) for run, records in kept.items() for r in records}
    assert seen.told <= texts.keys()
    assert seen.records.items() <= texts.items()
    seen.records.update(texts)
    return len(runs)
