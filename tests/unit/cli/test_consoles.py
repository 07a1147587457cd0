"""Progress is for a person at a terminal: never on stdout, never in a pipe, a log or CI."""

from __future__ import annotations

import io
import os
import sys

import pytest

from gpuemu.cli.consoles import make_console, working


class Terminal(io.StringIO):
    """A stderr that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def capture(monkeypatch: pytest.MonkeyPatch) -> tuple[io.StringIO, io.StringIO]:
    """stdout and stderr of a terminal; called in the test itself, since pytest sets its own between phases."""
    output, errors = io.StringIO(), Terminal()
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setattr(sys, "stderr", errors)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    return output, errors


def test_a_terminal_shows_progress_on_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    output, errors = capture(monkeypatch)
    with working("checking", quiet=False) as advance:
        advance(3, 64, "1 failing")
        print("from a kernel")  # noqa: T201
    assert output.getvalue() == ""
    assert "checking" in errors.getvalue()
    assert "3/64" in errors.getvalue()
    assert "1 failing" in errors.getvalue()
    assert "from a kernel" in errors.getvalue()


@pytest.mark.parametrize("reason", ["quiet", "ci", "pipe"])
def test_nobody_else_sees_it(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    streams = capture(monkeypatch)
    if reason == "ci":
        monkeypatch.setenv("CI", "true")
    if reason == "pipe":
        monkeypatch.setattr(sys, "stderr", io.StringIO())
    with working("checking", quiet=reason == "quiet") as advance:
        advance(3, 64, "1 failing")
    assert [stream.getvalue() for stream in streams] == ["", ""]


def test_stdout_is_given_back_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = capture(monkeypatch)
    with pytest.raises(KeyboardInterrupt), working("checking", quiet=False):
        raise KeyboardInterrupt
    assert sys.stdout is streams[0]
    assert sys.stderr is streams[1]


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    make_console().print("x", style="red")
    assert "\x1b[31m" not in sys.stdout.getvalue()  # type: ignore[attr-defined]
    monkeypatch.delenv("NO_COLOR")
    make_console().print("x", style="red")
    assert "\x1b[31m" in sys.stdout.getvalue()  # type: ignore[attr-defined]


def test_the_descriptor_of_stdout_is_diverted_and_given_back(capfd: pytest.CaptureFixture[str]) -> None:
    os.write(1, b"before ")
    with pytest.raises(ZeroDivisionError), working("checking", quiet=True):
        os.write(1, b"while ")
        raise ZeroDivisionError
    os.write(1, b"after")
    assert capfd.readouterr() == ("before after", "while ")


def test_a_closed_stdout_is_left_closed() -> None:
    kept = os.dup(1)
    os.close(1)
    try:
        with working("checking", quiet=True):
            pass
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(1)
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def test_without_a_stderr_writes_to_stdout_are_lost(capfd: pytest.CaptureFixture[str]) -> None:
    kept = os.dup(2)
    os.close(2)
    try:
        with working("checking", quiet=True):
            os.write(1, b"while ")
    finally:
        os.dup2(kept, 2)
        os.close(kept)
    assert capfd.readouterr().out == ""


def test_a_reader_that_went_away_is_a_broken_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(BrokenPipeError):
        make_console().print("x")
