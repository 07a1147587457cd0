"""The run store: one SQLite file per project that keeps every record the moment it exists.

WAL with synchronous=NORMAL: a committed record survives kill -9 of every process, not a loss of power
(https://www.sqlite.org/pragma.html#pragma_synchronous). The file appears with the first write; reading never
creates one. Documents are JSON text in the order in which they were written; nothing is ever unpickled.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from gpuemu.errors import StoreError, UsageError
from gpuemu.model.record import Minimal, Record, Run
from gpuemu.store.connection import connect, transaction, translated_errors

FILE_NAME = "runs.sqlite"
LATEST = "latest"
Value = TypeVar("Value")

_INSERT_RECORD = (
    "INSERT INTO records (run_id, role, idx, case_id, status, original_case_id, shrink_runs, record) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)


def make_run_id(now: datetime, entropy: bytes) -> str:
    """A run id such as 20261201-031500-3f9a: UTC time to the second, then the entropy in hexadecimal.

    Ids sort by time; two random bytes keep runs of the same second apart.

    Raises:
        ValueError: `now` has no time zone, or there are fewer than two bytes of entropy.
    """
    if now.tzinfo is None or len(entropy) < 2:
        raise ValueError("a run id needs a time with a time zone and at least two bytes of entropy")
    return f"{now.astimezone(UTC):%Y%m%d-%H%M%S}-{entropy.hex()}"


class Store:
    """Runs and records under a folder.

    folder: where `runs.sqlite` lies or will lie. batch: records per commit; 1 commits each record before
    `append` returns, more is for inline runs and loses at most `batch - 1` records to kill -9.

    Every method raises StoreError where the file is damaged, is no database, belongs to a newer gpuemu, or
    cannot be read or written; reading a store that does not exist raises it too.
    """

    def __init__(self, folder: Path | str, batch: int = 1) -> None:
        if batch < 1:
            raise ValueError(f"batch must be at least 1, not {batch}")
        self.path = Path(folder) / FILE_NAME
        self._batch = batch
        self._pending: list[tuple[Any, ...]] = []
        self._open: sqlite3.Connection | None = None

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Commit what is pending and release the file; an exception in the caller loses nothing."""
        try:
            self.flush()
        finally:
            if self._open is not None:
                self._open.close()
                self._open = None

    # --- writing ---

    def open_run(self, run: Run) -> None:
        """Enter a run before its first case.

        Raises:
            StoreError: a run of that id exists already.
        """
        document = _dump(run.to_json())
        self._write(
            "INSERT INTO runs (id, started, target, op, run) VALUES (?, ?, ?, ?, ?)",
            [(run.id, run.started, run.target, run.op, document)],
            f"run {run.id} is already in {self.path}",
        )

    def append(self, run_id: str, record: Record) -> None:
        """Keep a record of a case; committed on return unless the store batches.

        Raises:
            StoreError: the run is unknown, or has a record of that index already.
        """
        self._pending.append(_row(run_id, "case", record))
        if len(self._pending) >= self._batch:
            self.flush()

    def flush(self) -> None:
        """Commit every pending record in one transaction."""
        if not self._pending:
            return
        rows, self._pending = self._pending, []
        try:
            self._write(_INSERT_RECORD, rows, _record_conflict(rows, self.path))
        except KeyboardInterrupt:  # it may have come after the commit: else `close` writes them again
            if not self._holds(rows[-1]):
                self._pending = rows
            raise
        except StoreError as error:
            if not isinstance(error.__cause__, sqlite3.IntegrityError):
                self._pending = rows  # a full disk or a stuck writer may pass
            raise

    def append_minimal(self, run_id: str, minimal: Minimal) -> None:
        """Keep a run's shrunk failing case; `find_record` finds it like any other.

        Raises:
            StoreError: the run is unknown, or has a minimal case of that index already.
        """
        self.flush()
        row = _row(run_id, "minimal", minimal.record, minimal.original_case_id, minimal.runs)
        self._write(_INSERT_RECORD, [row], _record_conflict([row], self.path))

    def finish_run(self, run_id: str, status: str, message: str = "") -> None:
        """Commit everything and set the run's final status ("interrupted" included) and message."""
        self.flush()
        self._write(
            "UPDATE runs SET status = ?, message = ? WHERE id = ?", [(str(status), message, run_id)], ""
        )

    def _holds(self, row: tuple[Any, ...]) -> bool:
        statement = "SELECT 1 FROM records WHERE run_id = ? AND role = ? AND idx = ?"
        return bool(self._read(statement, *row[:3]))

    def _write(self, statement: str, rows: Iterable[tuple[Any, ...]], conflict: str) -> None:
        with translated_errors(self.path, conflict):
            connection = self._connection(create=True)
            with transaction(connection):
                connection.executemany(statement, rows)

    # --- reading ---

    def load_run(self, run_id: str) -> tuple[Run, str | None]:
        """A run by id, unique prefix or "latest", and its final status (None: never finished).

        Raises:
            UsageError: no such run, or the prefix fits several.
        """
        run_id = self._resolve_run(run_id)
        [(text, status)] = self._read("SELECT run, status FROM runs WHERE id = ?", run_id)
        return self._decode(Run.from_json, text), status

    def load_message(self, run_id: str) -> str:
        """The message that `finish_run` left; empty where it never ran.

        Raises:
            UsageError: as `load_run`.
        """
        [(message,)] = self._read("SELECT message FROM runs WHERE id = ?", self._resolve_run(run_id))
        return str(message)

    def list_runs(self, limit: int = 20) -> list[tuple[Run, str | None]]:
        """Runs with their final status, newest first."""
        rows = self._read("SELECT run, status FROM runs ORDER BY rowid DESC LIMIT ?", limit)
        return [(self._decode(Run.from_json, text), status) for text, status in rows]

    def load_records(self, run_id: str) -> list[Record]:
        """The records of a run in plan order, without the minimal case.

        Raises:
            UsageError: as `load_run`.
        """
        rows = self._read(
            "SELECT record FROM records WHERE run_id = ? AND role = 'case' ORDER BY idx",
            self._resolve_run(run_id),
        )
        return [self._decode(Record.from_json, text) for (text,) in rows]

    def count_records(self, run_id: str) -> int:
        """How many cases of a run have a record.

        Raises:
            UsageError: as `load_run`.
        """
        statement = "SELECT count(*) FROM records WHERE run_id = ? AND role = 'case'"
        [(count,)] = self._read(statement, self._resolve_run(run_id))
        return int(count)

    def load_minimal(self, run_id: str) -> Minimal | None:
        """The shrunk failing case of a run, if it has one.

        Raises:
            UsageError: as `load_run`.
        """
        rows = self._read(
            "SELECT record, original_case_id, shrink_runs FROM records "
            "WHERE run_id = ? AND role = 'minimal' ORDER BY rowid LIMIT 1",
            self._resolve_run(run_id),
        )
        for text, original, runs in rows:
            return Minimal(self._decode(Record.from_json, text), original, runs)
        return None

    def find_record(self, run_id: str, case_id: str) -> Record:
        """A record by case id or unique prefix; the minimal case counts.

        Raises:
            UsageError: no such run or case, or a prefix fits several.
        """
        run_id = self._resolve_run(run_id)
        rows = self._read(
            "SELECT case_id, record FROM records WHERE run_id = ? AND substr(case_id, 1, ?) = ? ORDER BY rowid",
            run_id, len(case_id), case_id,
        )  # fmt: skip
        chosen = _choose("case", case_id, list(dict.fromkeys(name for name, _ in rows)), f"run {run_id}")
        return self._decode(Record.from_json, next(text for name, text in rows if name == chosen))

    def _resolve_run(self, run_id: str) -> str:
        if run_id == LATEST:
            rows = self._read("SELECT id FROM runs ORDER BY rowid DESC LIMIT 1")
            if not rows:
                raise UsageError(f"no runs in {self.path} yet; `gpuemu check` records one")
            return str(rows[0][0])
        rows = self._read("SELECT id FROM runs WHERE substr(id, 1, ?) = ? ORDER BY id", len(run_id), run_id)
        return _choose("run", run_id, [str(name) for (name,) in rows], str(self.path))

    def _read(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        self.flush()
        with translated_errors(self.path):
            return self._connection(create=False).execute(statement, values).fetchall()

    def _decode(self, from_json: Callable[[Any], Value], text: str) -> Value:
        with translated_errors(self.path):
            return from_json(json.loads(text))

    def _connection(self, create: bool) -> sqlite3.Connection:
        if self._open is None:
            self._open = connect(self.path, create)
        return self._open


def _choose(noun: str, prefix: str, names: list[str], where: str) -> str:
    if prefix in names:
        return prefix
    if not prefix or not names:
        raise UsageError(f"no {noun} {prefix!r} in {where}")
    if len(names) > 1:
        shown = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
        raise UsageError(f"{noun} {prefix!r} is ambiguous in {where}: {shown}")
    return names[0]


def _row(
    run_id: str, role: str, record: Record, original: str | None = None, runs: int | None = None
) -> tuple[Any, ...]:
    document = _dump(record.to_json())
    status = str(record.verdict.status)
    return (run_id, role, record.index, record.case.id, status, original, runs, document)


def _record_conflict(rows: list[tuple[Any, ...]], path: Path) -> str:
    run_id, role, first = rows[0][0], rows[0][1], rows[0][2]
    which = f"record {first}" if len(rows) == 1 else f"one of the records {first} to {rows[-1][2]}"
    return f"run {run_id} is not in {path}, or holds {role} {which} already"


def _dump(document: dict[str, Any]) -> str:
    """JSON text that keeps the order of keys (dims and inputs are shown in theirs)."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
