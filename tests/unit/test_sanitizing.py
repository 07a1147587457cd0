"""Which case is looked at, and what is refused before any tool runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import gpuemu
from gpuemu import sanitizing
from gpuemu.errors import UsageError
from gpuemu.model.sanitizer import SanitizerFinding, SanitizerResult

KERNEL = "import torch\ndef relu(x): return torch.relu(x) * (1.0 if x.numel() < 40 else 1.5)\n"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "kernel.py").write_text(KERNEL)
    target = f"{tmp_path / 'kernel.py'}::relu"
    gpuemu.check(target, "relu", budget=12, seed=1, store=tmp_path / "store", runner="inline")
    return tmp_path / "store"


def test_a_run_on_the_cpu_needs_a_device(store: Path) -> None:
    with pytest.raises(UsageError, match="give --device cuda"):
        sanitizing.sanitize("latest", store=store)
    with pytest.raises(UsageError, match="no run"):
        sanitizing.sanitize("nothing", store=store, device="cuda")


def test_the_shrunk_case_is_looked_at(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def look(command: list[str], *_: object) -> list[SanitizerResult]:
        commands.append(command)
        return [SanitizerResult("memcheck", "findings", (SanitizerFinding("Invalid", "k(int)+0x1"),))]

    monkeypatch.setattr(sanitizing.tools, "sanitize", look)
    monkeypatch.setattr(sanitizing, "require_device", lambda _: None)
    found = sanitizing.sanitize("latest", store=store, device="cuda")
    assert found.record.verdict.status == "fail"
    elements = 1
    for size in found.record.case.dims.values():
        elements *= size
    assert 40 <= elements <= 45
    assert commands[0][-3:] == [found.run.id, found.record.case.id, "cuda"]
    assert found.to_json()["sanitizer"][0]["findings"][0]["kind"] == "Invalid"
    other = sanitizing.sanitize("latest", found.record.case.id[:8], store=store, device="cuda")
    assert other.record == found.record


def test_the_process_that_is_watched_calls_the_kernel(
    store: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    with sanitizing.Store(store) as opened:
        run, _ = opened.load_run("latest")
        case = opened.load_records(run.id)[0].case
    sanitizing.call_case(store, run.id, case.id, "cpu")
    assert capfd.readouterr().out.strip() == sanitizing.DONE
