"""Opening the store's SQLite file: creation, schema version, locks, and errors as one clear line."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuemu.errors import StoreError

SCHEMA_VERSION = 1
# A writer holds the lock for one small commit; waiting this long means that something is stuck.
BUSY_TIMEOUT_S = 30.0

_SCHEMA = (
    """CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        started TEXT NOT NULL,
        target TEXT NOT NULL,
        op TEXT NOT NULL,
        status TEXT,
        message TEXT NOT NULL DEFAULT '',
        run TEXT NOT NULL
    )""",
    """CREATE TABLE records (
        run_id TEXT NOT NULL REFERENCES runs (id),
        role TEXT NOT NULL CHECK (role IN ('case', 'minimal')),
        idx INTEGER NOT NULL,
        case_id TEXT NOT NULL,
        status TEXT NOT NULL,
        original_case_id TEXT,
        shrink_runs INTEGER,
        record TEXT NOT NULL,
        UNIQUE (run_id, role, idx)
    )""",
    "CREATE INDEX records_by_case ON records (run_id, case_id)",
    "CREATE INDEX records_by_status ON records (run_id, status)",
)


@contextmanager
def translated_errors(path: Path, conflict: str = "") -> Iterator[None]:
    """Turn what SQLite and damaged documents raise into StoreError; `conflict` explains a broken constraint."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise StoreError(conflict or f"run store {path}: {error}") from error
    except sqlite3.OperationalError as error:
        raise StoreError(f"run store {path} cannot be read or written: {error}") from error
    except sqlite3.DatabaseError as error:
        raise StoreError(
            f"run store {path} is damaged or is no gpuemu store ({error}); move it away to start afresh"
        ) from error
    except (json.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(
            f"run store {path} holds a damaged record ({type(error).__name__}: {error})"
        ) from error
    except OSError as error:
        raise StoreError(f"run store {path} cannot be read or written: {error.strerror}") from error


def connect(path: Path, create: bool) -> sqlite3.Connection:
    """A connection to a store of the current schema version.

    Raises:
        StoreError: the file is missing and `create` is false, or a newer gpuemu wrote it.
    """
    if create:
        _make_folder(path.parent)
    elif not path.exists():
        raise StoreError(
            f"no run store at {path}; run `gpuemu check` in this folder first, or set GPUEMU_STORE"
        )
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        _prepare(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _make_folder(folder: Path) -> None:
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # Runs are local to a machine: keep them out of version control without touching the user's own files.
        (folder / ".gitignore").write_text("*\n", encoding="utf-8")


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = NORMAL")
    _switch_to_wal(connection)
    if _read_version(connection) == 0:
        with transaction(connection):
            if _read_version(connection) == 0:  # another process may have been faster
                _create_tables(connection, path)
    version = _read_version(connection)
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"run store {path} has schema version {version}, this gpuemu reads up to {SCHEMA_VERSION}; "
            "update gpuemu"
        )


def _create_tables(connection: sqlite3.Connection, path: Path) -> None:
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise StoreError(f"{path} is a SQLite database of something else; move it away to start afresh")
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _read_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """The switch needs an exclusive lock and does not wait for one by itself, so that two processes which
    create a store at the same moment collide: try again until the timeout."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing; takes the write lock at once, so that two writers wait instead of failing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
