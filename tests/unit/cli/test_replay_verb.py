"""`gpuemu replay`: recorded beside repeated, with the exit code of their agreement."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from cli_fakes import install_fake
from click.testing import Result

from gpuemu.errors import UsageError
from gpuemu.model.record import Record, Run
from gpuemu.model.verdict import Status
from report_builders import make_record, make_run

FAILED = make_record(1, Status.FAIL, hint="only the tail")


@dataclass
class FakeResult:
    """Stands for `gpuemu.replay.ReplayResult`."""

    run: Run
    recorded: Record
    repeated: Record
    source_changed: bool = False
    printed: str = ""

    @property
    def same_inputs(self) -> bool:
        return self.recorded.inputs_sha256 == self.repeated.inputs_sha256

    @property
    def same_outputs(self) -> bool:
        return self.recorded.outputs_sha256 == self.repeated.outputs_sha256

    @property
    def same_verdict(self) -> bool:
        return self.recorded.verdict.status == self.repeated.verdict.status


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Installs a replay that gives these records and returns the arguments of its calls."""

    def install(recorded: Record, repeated: Record, **more: Any) -> list[Any]:
        calls: list[Any] = []

        def replay(*arguments: Any) -> FakeResult:
            calls.append(arguments)
            return FakeResult(make_run(), recorded, repeated, **more)

        install_fake(monkeypatch, "gpuemu.replay", replay=replay)
        return calls

    return install


def test_a_failure_that_happens_again_is_reproduced(run: Callable[..., Result], replayed: Any) -> None:
    calls = replayed(FAILED, FAILED)
    result = run("replay", "latest", "abc")
    assert calls == [("latest", "abc", Path(".gpuemu"), None)]
    assert result.exit_code == 0
    assert f"inputs equal, SHA-256 {FAILED.inputs_sha256}\n" in result.stdout
    assert f"outputs equal, SHA-256 {FAILED.outputs_sha256}\n" in result.stdout
    assert "recorded  fail (value)\n" in result.stdout
    assert "repeated  fail (value)\n" in result.stdout
    assert "hint      only the tail\n" in result.stdout
    assert result.stdout.splitlines()[-1] == "REPRODUCED  the recorded failure happens again: fail (value)"


def test_a_pass_that_happens_again(run: Callable[..., Result], replayed: Any) -> None:
    replayed(make_record(0), make_record(0))
    result = run("replay", "r", "c")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "REPRODUCED  the recorded verdict happens again: pass"


def test_another_verdict_is_1(run: Callable[..., Result], replayed: Any) -> None:
    replayed(FAILED, replace(make_record(1), outputs_sha256="f" * 64), source_changed=True)
    result = run("replay", "r", "c", "--device", "cuda")
    assert result.exit_code == 1
    assert "softmax_triton  op softmax, recorded on cpu, repeated on cuda, run " in result.stdout
    assert f"outputs differ, SHA-256 {FAILED.outputs_sha256} recorded, {'f' * 64} repeated\n" in result.stdout
    assert "warning: the kernel's source file has changed since the run\n" in result.stdout
    assert result.stdout.splitlines()[-1] == "NOT REPRODUCED  recorded fail (value), now pass"


def test_other_input_bytes_are_3_whatever_the_verdict(run: Callable[..., Result], replayed: Any) -> None:
    replayed(FAILED, replace(FAILED, inputs_sha256="e" * 64))
    result = run("replay", "r", "c")
    assert result.exit_code == 3
    assert f"inputs differ, SHA-256 {FAILED.inputs_sha256} recorded, {'e' * 64} repeated" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("INPUTS DIFFER  ")


def test_a_case_without_outputs(run: Callable[..., Result], replayed: Any) -> None:
    crashed = replace(make_record(1, Status.ERROR, message="RuntimeError: boom"), outputs_sha256=None)
    replayed(crashed, crashed)
    result = run("replay", "r", "c")
    assert "no outputs either time\n" in result.stdout
    assert result.stdout.splitlines()[-1] == "REPRODUCED  the recorded failure happens again: error"


def test_quiet_is_the_conclusion(run: Callable[..., Result], replayed: Any) -> None:
    replayed(FAILED, FAILED)
    assert run("replay", "r", "c", "-q").stdout.count("\n") == 1


def test_json(run: Callable[..., Result], replayed: Any) -> None:
    replayed(FAILED, make_record(1))
    result = run("replay", "r", "c", "--json")
    document = json.loads(result.stdout)
    assert Record.from_json(document["recorded"]) == FAILED
    assert {
        key: document[key] for key in ("same_inputs", "same_outputs", "same_verdict", "source_changed")
    } == {
        "same_inputs": True,
        "same_outputs": True,
        "same_verdict": False,
        "source_changed": False,
    }
    assert (document["exit_code"], document["device"]) == (1, "cpu")


def test_an_unknown_run_is_one_line(run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    def replay(*_: Any) -> None:
        raise UsageError("no run 'x' in .gpuemu/runs.sqlite")

    install_fake(monkeypatch, "gpuemu.replay", replay=replay)
    result = run("replay", "x", "c")
    assert (result.exit_code, result.stderr) == (2, "gpuemu: error: no run 'x' in .gpuemu/runs.sqlite\n")
