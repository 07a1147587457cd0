"""Each item of the diagnosis on machines that this one is not."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cli_fakes import install_fake

from gpuemu import environment
from gpuemu.cli import diagnosis
from gpuemu.cli.diagnosis import Item
from gpuemu.errors import UnsupportedEnvironmentError
from gpuemu.run import sandbox
from gpuemu.run.protections import Protections


def set_version(monkeypatch: pytest.MonkeyPatch, name: str, version: str | None) -> None:
    real = environment.get_package_version
    monkeypatch.setattr(environment, "get_package_version", lambda n: version if n == name else real(n))


def test_a_package_that_works() -> None:
    assert diagnosis.check_package("numpy", "1.26", "mend") == Item(
        "numpy", "ok", importlib.metadata.version("numpy")
    )


def test_a_package_that_is_missing_old_or_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert diagnosis.check_package("absent-package", "", "pip install it") == Item(
        "absent-package", "problem", "not installed", "pip install it"
    )
    set_version(monkeypatch, "torch", "2.5.1+cpu")
    assert "2.5.1+cpu is older than 2.6" in diagnosis.check_package("torch", "2.6", "mend").detail
    (tmp_path / "broken_package.py").write_text("raise OSError('libcudart.so.12: cannot open\\nmore')")
    monkeypatch.syspath_prepend(tmp_path)
    set_version(monkeypatch, "broken_package", "1.0")
    item = diagnosis.check_package("broken_package", "", "mend")
    assert item.state == "problem"
    assert item.detail == "1.0 cannot be imported: OSError: libcudart.so.12: cannot open"


@pytest.mark.parametrize(
    ("version", "oldest", "state"),
    [("2.10.0", "2.6", "ok"), ("2.6.0a0+git", "2.6", "ok"), ("3.0", "2.6", "ok"), ("2.5", "2.6", "problem")],
)
def test_versions_are_compared_as_numbers(
    monkeypatch: pytest.MonkeyPatch, version: str, oldest: str, state: str
) -> None:
    set_version(monkeypatch, "json", version)
    assert diagnosis.check_package("json", oldest, "mend").state == state


@pytest.mark.parametrize(
    ("version", "state", "detail"),
    [
        (None, "problem", "not installed"),
        ("3.5.1", "problem", "3.5.1 is outside the supported 3.6 to 3.9"),
        ("3.10.0", "problem", "3.10.0 is outside the supported 3.6 to 3.9"),
        ("3.6.0", "ok", "3.6.0"),
        ("3.9.1", "ok", "3.9.1"),
    ],
)
def test_triton_versions(monkeypatch: pytest.MonkeyPatch, version: str | None, state: str, detail: str) -> None:
    set_version(monkeypatch, "triton", version)
    item = diagnosis.check_triton()
    assert (item.state, item.detail) == (state, detail)
    assert (item.mend == "pip install 'gpuemu[triton]'") == (state == "problem")


def fake_interpreter(monkeypatch: pytest.MonkeyPatch, result: Any) -> None:
    def interpreter_faults() -> tuple[str, ...]:
        if isinstance(result, Exception):
            raise result
        return tuple(result)

    install_fake(monkeypatch, "gpuemu.candidates.triton_interpreter", interpreter_faults=interpreter_faults)


@pytest.mark.parametrize(
    ("result", "state", "words"),
    [
        ((), "ok", "works"),
        (("bfloat16 sum is wrong", "x"), "problem", "unsound: bfloat16 sum is wrong; x"),
        (UnsupportedEnvironmentError("no"), "problem", "does not work without a supported Triton"),
        (ImportError("libfoo\nmore"), "problem", "does not work: ImportError: libfoo"),
    ],
)
def test_the_interpreter(monkeypatch: pytest.MonkeyPatch, result: Any, state: str, words: str) -> None:
    fake_interpreter(monkeypatch, result)
    item = diagnosis.check_interpreter()
    assert (item.state, "\n" in item.detail) == (state, False)
    assert item.detail.startswith(words)


def fake_torch(monkeypatch: pytest.MonkeyPatch, cuda: str | None, available: bool) -> None:
    device = SimpleNamespace(
        is_available=lambda: available,
        get_device_capability=lambda: (9, 0),
        device_count=lambda: 2,
        get_device_name=lambda: "NVIDIA H200",
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(version=SimpleNamespace(cuda=cuda), cuda=device))


@pytest.mark.parametrize(
    ("cuda", "available", "driver", "state", "detail", "mend"),
    [
        ("12.8", True, ("NVIDIA H200", "570.1"), "ok",
         "NVIDIA H200 and 1 more, sm_90, CUDA 12.8, driver 570.1", ""),
        ("12.8", True, None, "ok", "NVIDIA H200 and 1 more, sm_90, CUDA 12.8", ""),
        (None, False, None, "absent", "no NVIDIA device or driver; this torch is a CPU build", ""),
        ("12.8", False, None, "absent", "no NVIDIA device or driver; this torch is for CUDA 12.8", ""),
        (None, False, ("NVIDIA H200", "570.1"), "problem",
         "NVIDIA H200 (driver 570.1) is there, but torch is a CPU build", diagnosis.CUDA_TORCH_MEND),
        ("13.0", False, ("NVIDIA H200", "470.1"), "problem",
         "NVIDIA H200 (driver 470.1) is there, but torch is for CUDA 13.0", "update the NVIDIA driver"),
    ],
)  # fmt: skip
def test_cuda(
    monkeypatch: pytest.MonkeyPatch,
    cuda: str | None,
    available: bool,
    driver: Any,
    state: str,
    detail: str,
    mend: str,
) -> None:
    fake_torch(monkeypatch, cuda, available)
    monkeypatch.setattr(diagnosis, "_query_driver", lambda: driver)
    item = diagnosis.check_cuda(Item("torch", "ok", "2.6"))
    assert (item.state, item.detail, item.mend) == (state, detail, mend)


def test_cuda_without_torch() -> None:
    assert diagnosis.check_cuda(Item("torch", "problem", "")).state == "absent"


def make_program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo 'NVIDIA H200, 570.86.15'; echo 'NVIDIA H200, 570.86.15'", ("NVIDIA H200", "570.86.15")),
        ("echo 'No devices were found'", None),
        ("echo failed >&2; exit 9", None),
        ("true", None),
    ],
)
def test_the_driver_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, expected: tuple[str, str] | None
) -> None:
    make_program(tmp_path, "nvidia-smi", script)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin:/usr/bin")
    assert diagnosis._query_driver() == expected


def test_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert diagnosis.check_program("nvcc").state == "absent"
    make_program(tmp_path, "nvcc", "true")
    assert diagnosis.check_program("nvcc") == Item("nvcc", "ok", str(tmp_path / "nvcc"))
    assert diagnosis._query_driver() is None
    assert diagnosis.check_ptxas().detail.startswith("Triton's own, ")


def test_store_and_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GPUEMU_STORE", raising=False)
    assert diagnosis.check_store(tmp_path) == Item("store", "ok", str(tmp_path / ".gpuemu"))
    assert diagnosis.check_configuration(tmp_path).detail == "no file; built-in defaults"
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "gpuemu.toml").write_text("store = 'kept'\n")
    assert diagnosis.check_store(tmp_path).detail == str(tmp_path / "kept")
    assert diagnosis.check_configuration(tmp_path) == Item("configuration", "ok", str(tmp_path / "gpuemu.toml"))
    (tmp_path / "gpuemu.toml").write_text("stroe = 'kept'\n")
    assert diagnosis.check_configuration(tmp_path).state == "problem"
    assert diagnosis.check_store(tmp_path).state == "ok"


def test_a_store_below_a_file_is_a_problem_with_its_mend(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GPUEMU_STORE", str(tmp_path / "file" / "store"))
    item = diagnosis.check_store(tmp_path)
    assert item.state == "problem"
    assert "GPUEMU_STORE" in item.mend


def test_the_cpu_tier_needs_its_packages_and_a_working_check(monkeypatch: pytest.MonkeyPatch) -> None:
    assert diagnosis.check_cpu_tier([Item("torch", "problem", "")]).detail == "does not work without torch"

    def check(*_: Any, **__: Any) -> None:
        raise RuntimeError("broken\nmore")

    install_fake(monkeypatch, "gpuemu.checking", check=check)
    item = diagnosis.check_cpu_tier([Item("torch", "ok", "")])
    assert (item.state, item.detail) == ("problem", "does not work: RuntimeError: broken")


@pytest.mark.parametrize(("code", "state"), [(0, "ok"), (3, "problem")])
def test_the_cuda_tier_is_tried_in_a_process_of_its_own(
    monkeypatch: pytest.MonkeyPatch, code: int, state: str
) -> None:
    calls: list[list[str]] = []

    def fake_run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        return subprocess.CompletedProcess(command, code, "", "first\ngpuemu: error: boom\n")

    monkeypatch.setattr(subprocess, "run", fake_run)
    item = diagnosis.check_cuda_tier(Item("cuda", "ok", ""))
    assert item.state == state
    assert ("boom" in item.detail) == (code != 0)
    assert calls[0][1:5] == ["-m", "gpuemu", "check", "relu_triton"]
    assert diagnosis.check_cuda_tier(Item("cuda", "absent", "")).state == "absent"


def test_the_cuda_tier_says_which_verdict_was_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = [{"status": "pass"}, {"status": "fail", "kind": "value", "message": "2 of 4 elements"}]
    text = json.dumps({"records": [{"verdict": verdict} for verdict in verdicts]})
    ended = subprocess.CompletedProcess([], 1, text, "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: ended)
    item = diagnosis.check_cuda_tier(Item("cuda", "ok", ""))
    assert item.detail.endswith("relu_triton was judged fail (value): 2 of 4 elements")


def test_worker_protections(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = [
        Protections(("user namespace", "own /proc"), {}),
        Protections(
            ("own /proc",), {"ipc namespace": "refused", "user namespace": "refused", "privileges": "kept"}
        ),
        Protections((), {"privileges": "only Linux has it"}),
    ]
    monkeypatch.setattr(sandbox, "probe", lambda: reports.pop(0))
    assert diagnosis.check_protections() == Item("worker protections", "ok", "user namespace, own /proc")
    item = diagnosis.check_protections()
    assert item.state == "problem"
    assert item.detail == "active: own /proc; missing: ipc namespace, user namespace: refused; privileges: kept"
    assert diagnosis.check_protections().detail == "active: none; missing: privileges: only Linux has it"
