"""The store keeps every record at once, for any number of processes, and says clearly what it cannot read."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuemu.errors import StoreError, UsageError
from gpuemu.model.verdict import Status
from gpuemu.store.sqlite import Store, make_run_id
from report_builders import make_case, make_minimal, make_record, make_run

TESTS = Path(__file__).parents[2]
RUN = make_run()


def run_python(code: str, *arguments: str) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path):
    with Store(tmp_path / "store") as store:
        yield store


def test_what_is_written_is_read_back_by_another_connection(store: Store) -> None:
    records = [make_record(0), make_record(1, Status.FAIL, hint="only the tail"), make_record(2, Status.ERROR)]
    store.open_run(RUN)
    for record in records:
        store.append(RUN.id, record)
    with Store(store.path.parent) as reader:
        assert reader.load_run(RUN.id) == (RUN, None)
        assert reader.load_records(RUN.id) == records
    store.finish_run(RUN.id, Status.FAIL, "one of three")
    with Store(store.path.parent) as reader:
        assert reader.load_run(RUN.id) == (RUN, "fail")
        assert reader.load_message(RUN.id) == "one of three"


def test_dims_and_inputs_keep_their_order(store: Store) -> None:
    case = make_case(dims={"S": 1, "B": 2}, layouts={"z": "offset", "a": "strided"})
    store.open_run(RUN)
    store.append(RUN.id, make_record(0, case=case))
    [record] = store.load_records(RUN.id)
    assert list(record.case.dims) == ["S", "B"]
    assert list(record.case.layouts) == ["z", "a"]
    assert record.case.id == case.id


@given(
    st.floats(allow_nan=False),
    st.text(),
    st.integers(min_value=0, max_value=2**64 - 1),
)
def test_any_verdict_survives(number: float, text: str, seed: int) -> None:
    import tempfile

    record = make_record(0, Status.FAIL, make_case(seed=seed), message=text)
    worst = type(record.verdict.worst)(0, (), number, -number, number, number, number)
    record = make_record(0, Status.FAIL, make_case(seed=seed), message=text, worst=worst)
    with tempfile.TemporaryDirectory() as folder, Store(folder) as store:
        store.open_run(RUN)
        store.append(RUN.id, record)
        assert store.load_records(RUN.id) == [record]


def test_minimal_case_is_found_but_is_no_case_of_the_plan(store: Store) -> None:
    original = make_record(0, Status.FAIL)
    minimal = make_minimal(make_record(0, Status.FAIL, make_case(dims={"R": 1, "N": 3})), original)
    store.open_run(RUN)
    assert store.load_minimal(RUN.id) is None
    store.append(RUN.id, original)
    store.append_minimal(RUN.id, minimal)
    assert store.load_records(RUN.id) == [original]
    assert store.load_minimal(RUN.id) == minimal
    assert store.find_record(RUN.id, minimal.record.case.id) == minimal.record
    assert store.find_record(RUN.id, original.case.id[:6]) == original


def test_a_minimal_case_equal_to_its_original_is_not_ambiguous(store: Store) -> None:
    record = make_record(0, Status.FAIL)
    store.open_run(RUN)
    store.append(RUN.id, record)
    store.append_minimal(RUN.id, make_minimal(record, record))
    assert store.find_record(RUN.id, record.case.id) == record


def test_runs_are_found_by_prefix_and_latest(store: Store) -> None:
    # opened out of id order: "latest" is the one entered last
    for run_id in ("20261201-031500-3f9b", "20261202-000000-0000", "20261201-031500-3f9a"):
        store.open_run(make_run(run_id))
    assert store.load_run("latest")[0].id == "20261201-031500-3f9a"
    assert store.load_run("20261202")[0].id == "20261202-000000-0000"
    assert [run.id[-4:] for run, _ in store.list_runs(2)] == ["3f9a", "0000"]
    with pytest.raises(UsageError, match=r"ambiguous.*3f9a, 20261201-031500-3f9b"):
        store.load_run("20261201")
    for unknown in ("2025", "%", "", "_" * 20):
        with pytest.raises(UsageError, match="no run"):
            store.load_run(unknown)


def test_a_full_id_wins_over_longer_ids_that_start_with_it(store: Store) -> None:
    store.open_run(make_run("20261201-031500-3f9a"))
    store.open_run(make_run("20261201-031500-3f9a00"))
    assert store.load_run("20261201-031500-3f9a")[0].id == "20261201-031500-3f9a"


def test_unknown_case_is_a_usage_error(store: Store) -> None:
    store.open_run(RUN)
    store.append(RUN.id, make_record(0))
    with pytest.raises(UsageError, match="no case 'zz'"):
        store.find_record("latest", "zz")


def test_one_run_or_record_is_never_written_twice(store: Store) -> None:
    store.open_run(RUN)
    with pytest.raises(StoreError, match="already"):
        store.open_run(RUN)
    store.append(RUN.id, make_record(0))
    with pytest.raises(StoreError, match="already"):
        store.append(RUN.id, make_record(0, Status.FAIL))
    with pytest.raises(StoreError, match="nowhere is not in"):
        store.append("nowhere", make_record(1))
    store.append(RUN.id, make_record(1))  # a rejected record does not spoil the next
    assert [record.index for record in store.load_records(RUN.id)] == [0, 1]


def test_a_batch_is_committed_when_full_and_at_the_end(tmp_path: Path) -> None:
    def count() -> int:
        with Store(tmp_path) as reader:
            return len(reader.load_records("latest"))

    with Store(tmp_path, batch=3) as store:
        store.open_run(RUN)
        store.append(RUN.id, make_record(0))
        store.append(RUN.id, make_record(1))
        assert count() == 0
        store.append(RUN.id, make_record(2))
        assert count() == 3
        store.append(RUN.id, make_record(3))
        store.append(RUN.id, make_record(4))
        store.append(RUN.id, make_record(5))
        assert count() == 6
        store.append(RUN.id, make_record(6))
        assert len(store.load_records(RUN.id)) == 7  # its own reader sees what is pending
        store.append(RUN.id, make_record(7))
    assert count() == 8


def test_an_interrupt_loses_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Store(tmp_path, batch=100) as store:
        store.open_run(RUN)
        store.append(RUN.id, make_record(0))
        raise KeyboardInterrupt
    with Store(tmp_path) as store:
        assert len(store.load_records(RUN.id)) == 1


@pytest.mark.parametrize("after_commit", [False, True])
def test_an_interrupt_during_a_commit_writes_the_batch_exactly_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after_commit: bool
) -> None:
    write = Store._write

    def interrupted(self: Store, statement: str, rows: list[tuple[object, ...]], conflict: str) -> None:
        if after_commit:
            write(self, statement, rows, conflict)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Store(tmp_path, batch=2) as store:
        store.open_run(RUN)
        store.append(RUN.id, make_record(0))
        with monkeypatch.context() as patch:
            patch.setattr(Store, "_write", interrupted)
            store.append(RUN.id, make_record(1))
    with Store(tmp_path) as store:
        assert len(store.load_records(RUN.id)) == 2


def test_every_appended_record_survives_kill_9(tmp_path: Path) -> None:
    child = run_python(
        "import itertools, sys\n"
        "from report_builders import make_record, make_run\n"
        "from gpuemu.store.sqlite import Store\n"
        "store = Store(sys.argv[1]); store.open_run(make_run())\n"
        "for index in itertools.count():\n"
        "    store.append(make_run().id, make_record(index)); print(index, flush=True)\n",
        str(tmp_path),
    )
    assert child.stdout is not None
    seen = [child.stdout.readline() for _ in range(20)]
    os.kill(child.pid, signal.SIGKILL)
    seen += child.stdout.read().splitlines(keepends=True)
    child.wait()
    child.stdout.close()
    acknowledged = [int(line) for line in seen if line.endswith("\n")]
    with Store(tmp_path) as store:
        run, status = store.load_run("latest")
        indices = [record.index for record in store.load_records(run.id)]
        assert status is None
        assert len(acknowledged) >= 20
        assert indices[: len(acknowledged)] == acknowledged
        assert len(indices) <= len(acknowledged) + 1  # at most the one killed before it was printed
        store.append(run.id, make_record(len(indices)))  # and the store goes on


def test_processes_write_at_once_from_the_first_moment(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from report_builders import make_record, make_run\n"
        "from gpuemu.store.sqlite import Store\n"
        "run = make_run(sys.argv[2])\n"
        "with Store(sys.argv[1], batch=int(sys.argv[3])) as store:\n"
        "    store.open_run(run)\n"
        "    for index in range(50): store.append(run.id, make_record(index))\n"
        "    store.finish_run(run.id, 'pass')\n"
    )
    batches = {"run-a": "1", "run-b": "1", "run-c": "7", "run-d": "1"}
    children = [run_python(code, str(tmp_path), name, batch) for name, batch in batches.items()]
    for child in children:
        child.communicate()
    assert [child.returncode for child in children] == [0] * 4
    with Store(tmp_path) as store:
        assert {run.id: status for run, status in store.list_runs()} == dict.fromkeys(batches, "pass")
        for name in batches:
            assert [record.index for record in store.load_records(name)] == list(range(50))


def test_reading_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no run store at .*gpuemu check"):
        Store(tmp_path / "absent").load_run("latest")
    with Store(tmp_path / "absent"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_store_without_runs_says_so(store: Store) -> None:
    store.open_run(RUN)
    with sqlite3.connect(store.path) as connection:
        connection.execute("DELETE FROM runs")
    with pytest.raises(UsageError, match="no runs in"):
        store.load_run("latest")


def test_the_folder_ignores_itself_in_version_control(store: Store) -> None:
    store.open_run(RUN)
    assert (store.path.parent / ".gitignore").read_text() == "*\n"


def test_an_existing_folder_is_left_as_it_is(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.open_run(RUN)
    assert not (tmp_path / ".gitignore").exists()


def test_settings_of_the_file(store: Store) -> None:
    store.open_run(RUN)
    connection = store._connection(create=False)
    pragmas = {n: connection.execute(f"PRAGMA {n}").fetchone()[0] for n in ("journal_mode", "synchronous")}
    assert pragmas == {"journal_mode": "wal", "synchronous": 1}  # 1 is NORMAL


def damage(path: Path, how: str) -> None:
    match how:
        case "text":
            path.write_text("this is no database, " * 500)
        case "truncated":
            path.write_bytes(path.read_bytes()[:4096])
        case "newer":
            with sqlite3.connect(path) as connection:
                connection.execute("PRAGMA user_version = 2")
        case "foreign":
            path.unlink()
            with sqlite3.connect(path) as connection:
                connection.execute("CREATE TABLE cookies (name TEXT)")
        case "json":
            with sqlite3.connect(path) as connection:
                connection.execute("UPDATE runs SET run = '{\"id\": '")
        case "keys":
            with sqlite3.connect(path) as connection:
                connection.execute('UPDATE runs SET run = \'{"seed": "3", "notes": []}\'')
        case "folder":
            path.unlink()
            path.mkdir()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("text", "damaged or is no gpuemu store"),
        ("truncated", "damaged or is no gpuemu store"),
        ("newer", "schema version 2, this gpuemu reads up to 1; update gpuemu"),
        ("foreign", "database of something else"),
        ("json", "damaged record"),
        ("keys", "damaged record"),
        ("folder", "cannot be read or written"),
    ],
)
def test_what_cannot_be_read_is_one_clear_line(tmp_path: Path, how: str, message: str) -> None:
    with Store(tmp_path) as store:
        store.open_run(RUN)
    for extra in tmp_path.glob("*-wal"):
        extra.unlink()
    damage(store.path, how)
    with pytest.raises(StoreError, match=message) as caught, Store(tmp_path) as store:
        store.load_run(RUN.id)
    assert "\n" not in str(caught.value)
    assert str(store.path) in str(caught.value)


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be read or written"):
        Store(tmp_path / "file" / "store").open_run(RUN)


def test_documents_are_json_text(store: Store) -> None:
    store.open_run(RUN)
    store.append(RUN.id, make_record(0))
    with sqlite3.connect(store.path) as connection:
        [(text, case_id, status, index)] = connection.execute(
            "SELECT record, case_id, status, idx FROM records"
        ).fetchall()
    document = json.loads(text)
    assert (document["case_id"], document["verdict"]["status"], document["index"]) == (case_id, status, index)


def test_run_ids_sort_by_time_whatever_the_zone() -> None:
    now = datetime(2026, 12, 1, 3, 15, tzinfo=UTC)
    assert make_run_id(now, b"\x3f\x9a") == "20261201-031500-3f9a"
    elsewhere = now.astimezone(timezone(timedelta(hours=9)))
    assert make_run_id(elsewhere, b"\x3f\x9a") == "20261201-031500-3f9a"
    later = [make_run_id(now + timedelta(seconds=s), bytes([255 - s, 0])) for s in range(3)]
    assert later == sorted(later)
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{4}", later[0])


def test_run_ids_need_a_zone_and_entropy() -> None:
    with pytest.raises(ValueError, match="time zone"):
        make_run_id(datetime(2026, 12, 1), b"\x3f\x9a")
    with pytest.raises(ValueError, match="entropy"):
        make_run_id(datetime(2026, 12, 1, tzinfo=UTC), b"\x3f")
