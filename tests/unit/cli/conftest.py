"""Fixtures of the command line's tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cli_fakes import FakeCheck, install_fake
from click.testing import CliRunner, Result

from gpuemu.cli import app

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line in an empty folder without configuration."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUEMU_STORE", raising=False)
    return lambda *arguments: CliRunner().invoke(app.main, list(arguments))


@pytest.fixture
def fake_check(monkeypatch: pytest.MonkeyPatch) -> FakeCheck:
    fake = FakeCheck()
    install_fake(monkeypatch, "gpuemu.checking", check=fake)
    return fake
