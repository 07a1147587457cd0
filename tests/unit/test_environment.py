"""How threads wait for work: shortly, unless the user said otherwise, in the judge and in its workers."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gpuemu import environment
from gpuemu.environment import SHORT_WAITS

IMPORT_ORDER = """
import os, sys
from gpuemu.cli.app import main
assert "torch" not in sys.modules
try: main(["ops", "--quiet"])
except SystemExit: pass
sys.stderr.write(os.environ.get("GOMP_SPINCOUNT", "unset"))
"""


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SHORT_WAITS:
        monkeypatch.setenv(name, "")  # so that it is put back, whatever the test does
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("unset")
def test_threads_of_the_judge_and_of_workers_wait_shortly() -> None:
    assert SHORT_WAITS.items() <= environment.make_worker_environment("/scratch").items()
    environment.shorten_waits()
    assert SHORT_WAITS.items() <= dict(os.environ).items()
    assert SHORT_WAITS.items() <= environment.make_worker_environment("/scratch").items()


@pytest.mark.usefixtures("unset")
@pytest.mark.parametrize(("name", "value"), [("OMP_WAIT_POLICY", "active"), ("GOMP_SPINCOUNT", "7")])
def test_what_the_user_said_of_it_stands(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    environment.shorten_waits()
    for found in (dict(os.environ), environment.make_worker_environment("/scratch")):
        assert {key: found[key] for key in SHORT_WAITS if key in found} == {name: value}


@pytest.mark.usefixtures("unset")
def test_the_command_line_says_so_before_torch_is_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT_ORDER], capture_output=True, text=True, check=True)
    assert done.stderr == SHORT_WAITS["GOMP_SPINCOUNT"]
