"""The command line with the worker, which is its default: what it finds, says, keeps and goes on with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

KERNELS = """
import os, torch
print("imported")
def right(x): return torch.relu(x)
def crashing(x): os.abort()
def caching(x, held={}): return held.setdefault(x.shape, torch.relu(x)).clone()
def unwritten(x):
    y = torch.empty_like(x)
    y.view(-1)[:-1] = torch.relu(x).view(-1)[:-1]
    return y
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kernels.py").write_text(KERNELS)
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GPUEMU_")}
    return subprocess.run(
        [sys.executable, "-m", "gpuemu", *arguments],
        capture_output=True, text=True, check=False, cwd=folder, env=environment, timeout=120,
    )  # fmt: skip


def test_a_right_kernel_passes_in_a_worker_and_the_record_says_so(folder: Path) -> None:
    done = run(folder, "check", "kernels.py::right", "--op", "relu", "--budget", "12", "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["run"]["mode"]) == (0, "worker")
    assert isinstance(document["run"]["protections"], list)
    assert "imported" in done.stderr
    listed = json.loads(run(folder, "runs", "--json").stdout)["runs"]
    assert [(one["status"], one["cases"]) for one in listed] == [("pass", 12)]


@pytest.mark.parametrize(
    ("function", "kind"), [("crashing", "crash"), ("caching", "guard:stale"), ("unwritten", "guard:poison")]
)
def test_what_only_a_worker_or_a_guard_sees(folder: Path, function: str, kind: str) -> None:
    arguments = ("check", f"kernels.py::{function}", "--op", "relu", "--budget", "6", "--no-shrink", "--json")
    done = run(folder, *arguments)
    records = json.loads(done.stdout)["records"]
    assert done.returncode == 1
    assert len(records) == 6
    assert kind in {record["verdict"].get("kind") for record in records}


def test_a_killed_run_is_resumed(folder: Path) -> None:
    (folder / "slow.py").write_text(
        "import time, torch\ndef f(x):\n    time.sleep(0.05)\n    return torch.relu(x)\n"
    )
    command = [sys.executable, "-m", "gpuemu", "check", "slow.py::f", "--op", "relu", "--budget", "40", "-q"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GPUEMU_")}
    judge = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    for _ in range(600):
        time.sleep(0.1)
        listed = run_listed(folder)
        if listed and 0 < listed[0]["cases"] < 40:
            break
    judge.send_signal(signal.SIGKILL)
    judge.wait()
    [left] = run_listed(folder)
    assert left["status"] == "unfinished"
    assert 0 < left["cases"] < 40
    done = run(folder, "check", "--resume", "latest", "--json")
    assert done.returncode == 0, done.stderr
    assert [record["index"] for record in json.loads(done.stdout)["records"]] == list(range(40))


def run_listed(folder: Path) -> list[dict[str, object]]:
    from gpuemu.store.sqlite import Store

    if not (folder / ".gpuemu" / "runs.sqlite").exists():
        return []
    with Store(folder / ".gpuemu") as store:
        return [{"status": s or "unfinished", "cases": store.count_records(r.id)} for r, s in store.list_runs()]
