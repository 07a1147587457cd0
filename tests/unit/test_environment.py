"""What a candidate's process is told by its environment; how threads wait for work, there and in the judge."""

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


@pytest.mark.parametrize("ours", ["0", "1", None])
@pytest.mark.parametrize("is_interpreted", [True, False])
def test_the_tier_decides_whether_a_worker_interprets(
    monkeypatch: pytest.MonkeyPatch, ours: str | None, is_interpreted: bool
) -> None:
    """Whatever the user's shell has: Triton reads the variable when the worker imports it."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    if ours is not None:
        monkeypatch.setenv("TRITON_INTERPRET", ours)
    made = environment.make_worker_environment("/scratch", is_interpreted)
    assert made.get("TRITON_INTERPRET") == ("1" if is_interpreted else None)


def test_secrets_stay_with_the_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/ptxas")
    made = environment.make_worker_environment("/scratch", is_interpreted=True)
    assert "AWS_SECRET_ACCESS_KEY" not in made
    assert made["TRITON_PTXAS_PATH"] == "/ptxas"
    assert made["TMPDIR"] == made["TRITON_CACHE_DIR"] == "/scratch"


def test_what_compilers_set_is_no_part_of_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    before = environment.snapshot()
    for name in ("TRITON_CACHE_DIR", "TRITON_PTXAS_PATH", "_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR"):
        monkeypatch.setenv(name, "set")
    assert environment.snapshot() == before
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    assert environment.snapshot() != before


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SHORT_WAITS:
        monkeypatch.setenv(name, "")  # so that it is put back, whatever the test does
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("unset")
def test_threads_of_the_judge_and_of_workers_wait_shortly() -> None:
    assert SHORT_WAITS.items() <= environment.make_worker_environment("/scratch", is_interpreted=True).items()
    environment.shorten_waits()
    assert SHORT_WAITS.items() <= dict(os.environ).items()
    assert SHORT_WAITS.items() <= environment.make_worker_environment("/scratch", is_interpreted=True).items()


@pytest.mark.usefixtures("unset")
@pytest.mark.parametrize(("name", "value"), [("OMP_WAIT_POLICY", "active"), ("GOMP_SPINCOUNT", "7")])
def test_what_the_user_said_of_it_stands(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    environment.shorten_waits()
    for found in (dict(os.environ), environment.make_worker_environment("/scratch", is_interpreted=True)):
        assert {key: found[key] for key in SHORT_WAITS if key in found} == {name: value}


@pytest.mark.usefixtures("unset")
def test_the_command_line_says_so_before_torch_is_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT_ORDER], capture_output=True, text=True, check=True)
    assert done.stderr == SHORT_WAITS["GOMP_SPINCOUNT"]
