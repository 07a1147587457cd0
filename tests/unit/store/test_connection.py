"""Opening the file while another process is just creating it."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from gpuemu.store import connection


class Contended:
    """A connection whose first switches to WAL fail, as SQLite's do at once when two of them collide."""

    def __init__(self, errorcode: int, failures: int) -> None:
        self.errorcode, self.failures = errorcode, failures
        self.attempts = 0

    def execute(self, statement: str) -> None:
        assert statement == "PRAGMA journal_mode = WAL"
        self.attempts += 1
        if self.attempts <= self.failures:
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = self.errorcode
            raise error


def switch(contended: Any) -> None:
    connection._switch_to_wal(contended)


def test_a_collision_is_tried_again() -> None:
    contended = Contended(sqlite3.SQLITE_BUSY, failures=3)
    switch(contended)
    assert contended.attempts == 4


def test_another_error_is_not() -> None:
    contended = Contended(sqlite3.SQLITE_READONLY, failures=1)
    with pytest.raises(sqlite3.OperationalError):
        switch(contended)
    assert contended.attempts == 1


def test_a_lock_that_stays_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", -1.0)
    contended = Contended(sqlite3.SQLITE_BUSY, failures=10)
    with pytest.raises(sqlite3.OperationalError):
        switch(contended)
