"""`gpuemu check`: flags, configuration, output and endings, around a fake `check`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from gpuemu.errors import TargetError, UnsupportedEnvironmentError
from gpuemu.model.contract import DEFAULT_LAYOUTS
from gpuemu.model.verdict import Status
from report_builders import make_case, make_minimal, make_record, make_report, make_run

Run = Callable[..., Result]


def test_defaults(run: Run, fake_check: Any) -> None:
    fake_check.report = make_report()
    assert run("check", "softmax_triton").exit_code == 0
    arguments = fake_check.arguments
    del arguments["progress"]
    assert arguments == {
        "kernel": "softmax_triton",
        "op": None,
        "backward": False,
        "budget": 64,
        "seed": None,
        "device": "cpu",
        "dtypes": None,
        "layouts": None,
        "value_classes": None,
        "profile": None,
        "calibration": None,
        "rigorous": False,
        "reference": True,
        "audit": False,
        "repeats": 2,
        "runner": None,
        "timeout_s": 60.0,
        "without_guards": (),
        "protect": True,
        "strategy": "covering",
        "store": Path(".gpuemu"),
        "shrink": True,
    }


def test_flags_reach_check(run: Run, fake_check: Any) -> None:
    fake_check.report = make_report()
    result = run(
        "check", "k.py::f", "--op", "o.py::op", "--budget", "5", "--seed", str(2**64 - 1), "--device", "cuda",
        "--dtype", "float16", "--dtype", "bfloat16,float32", "--layouts", "strided, offset", "--profile", "P2",
        "--values", "bell,adversarial", "--values", "ones", "--strategy", "covering",
        "--no-store", "--no-shrink", "--repeats", "5",
        "--runner", "inline", "--timeout", "2.5", "--no-guard", "poison", "--no-guard", "stale", "--no-protect",
    )  # fmt: skip
    assert result.exit_code == 0
    expected = {
        "kernel": "k.py::f",
        "op": "o.py::op",
        "budget": 5,
        "seed": 2**64 - 1,
        "device": "cuda",
        "dtypes": ("float16", "bfloat16", "float32"),
        "layouts": ("strided", "offset"),
        "value_classes": ("bell", "adversarial", "ones"),
        "profile": "P2",
        "repeats": 5,
        "runner": "inline",
        "timeout_s": 2.5,
        "without_guards": ("poison", "stale"),
        "protect": False,
        "store": False,
        "shrink": False,
    }
    assert {name: fake_check.arguments[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("text", "layouts"),
    [
        ("all", DEFAULT_LAYOUTS),
        ("all,all", DEFAULT_LAYOUTS),
        ("contiguous", ("contiguous",)),
        ("row_gap,strided", ("row_gap", "strided")),
    ],
)
def test_layouts(run: Run, fake_check: Any, text: str, layouts: tuple[str, ...]) -> None:
    fake_check.report = make_report()
    run("check", "k", "--layouts", text)
    assert fake_check.arguments["layouts"] == layouts


def test_configuration_fills_in_and_flags_override(run: Run, fake_check: Any) -> None:
    Path("gpuemu.toml").write_text(
        'budget = 7\nseed = 0\ndevice = "cuda"\ndtypes = ["float16"]\nlayouts = ["offset"]\nprofile = "PT"\n'
        'values = ["bell"]\n'
        'strategy = "covering"\nstore = "kept"\n'
    )
    fake_check.report = make_report()
    run("check", "k", "--device", "cpu", "--dtype", "float32", "--seed", "3")
    expected = {
        "budget": 7,
        "seed": 3,
        "device": "cpu",
        "dtypes": ("float32",),
        "layouts": ("offset",),
        "value_classes": ("bell",),
        "profile": "PT",
        "store": Path.cwd() / "kept",
    }
    assert {name: fake_check.arguments[name] for name in expected} == expected
    run("check", "k")
    assert fake_check.arguments["seed"] == 0


def test_a_configured_value_of_zero_or_false_is_not_taken_for_absent(run: Run, fake_check: Any) -> None:
    Path("gpuemu.toml").write_text("seed = 0\nstrict = false\n")
    fake_check.report = make_report()
    run("check", "k")
    assert fake_check.arguments["seed"] == 0


def test_a_configuration_error_ends_with_2_before_anything_runs(run: Run, fake_check: Any) -> None:
    Path("gpuemu.toml").write_text("bugdet = 7\n")
    result = run("check", "k")
    assert result.exit_code == 2
    assert "unknown key 'bugdet'; did you mean 'budget'?" in result.stderr
    assert fake_check.arguments == {}


def test_the_environment_overrides_the_configured_store(
    run: Run, fake_check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("gpuemu.toml").write_text('store = "kept"\n')
    monkeypatch.setenv("GPUEMU_STORE", "elsewhere")
    fake_check.report = make_report()
    run("check", "k")
    assert fake_check.arguments["store"] == Path("elsewhere")


@pytest.mark.parametrize(
    ("configured", "flag", "code"),
    [("false", "--strict", 1), ("true", "--no-strict", 0), ("true", None, 1), ("false", None, 0)],
)
def test_strict(run: Run, fake_check: Any, configured: str, flag: str | None, code: int) -> None:
    Path("gpuemu.toml").write_text(f"strict = {configured}\n")
    fake_check.report = make_report(Status.PASS, (make_record(0, flags=("suspicious",)),))
    assert run("check", "k", *([flag] if flag else [])).exit_code == code


def test_strict_says_which_flags_failed(run: Run, fake_check: Any) -> None:
    fake_check.report = make_report(Status.PASS, (make_record(0, flags=("suspicious",)), make_record(1)))
    for option in ((), ("--quiet",)):
        lines = run("check", "k", "--strict", *option).stdout
        assert "FAIL  strict: suspicious in 1 case; otherwise pass: 2 of 2 cases within" in lines
        assert "\nPASS" not in f"\n{lines}"
        assert "\nPASS  2 of 2" in "\n" + run("check", "k", *option).stdout


def test_strict_changes_nothing_where_no_flag_is_set(run: Run, fake_check: Any) -> None:
    fake_check.report = make_report(Status.PASS, (make_record(0, flags=("generic_bound",)),))
    assert run("check", "k", "--strict").stdout == run("check", "k").stdout


@pytest.mark.parametrize(
    ("line", "flag", "message"),
    [
        ('dtypes = ["int8"]', ("--dtype", "int8"), "dtype int8: op 'x' has float32"),
        ('layouts = ["offset"]', ("--layouts", "offset"), "layout offset: op 'x' has strided"),
        ('values = ["ones"]', ("--values", "ones"), "value class ones: op 'x' has bell"),
        ('device = "cuda"', ("--device", "cuda"), "device 'cuda': torch sees no CUDA device"),
        ('strategy = "luck"', ("--strategy", "luck"), "unknown strategy 'luck'; known: covering"),
    ],
)
def test_a_configured_value_that_fails_later_is_named_with_its_file(
    run: Run, fake_check: Any, line: str, flag: tuple[str, ...], message: str
) -> None:
    Path("gpuemu.toml").write_text(line)
    fake_check.error = UnsupportedEnvironmentError(message)
    result = run("check", "k")
    assert (result.exit_code, result.stderr) == (3, f"gpuemu: error: {Path.cwd()}/gpuemu.toml: {message}\n")
    assert run("check", "k", *flag).stderr == f"gpuemu: error: {message}\n"
    fake_check.error = TargetError("k.py: no such file")
    assert run("check", "k").stderr == "gpuemu: error: k.py: no such file\n"


def test_a_pass_is_two_lines_on_stdout_and_notes_are_on_stderr(run: Run, fake_check: Any) -> None:
    fake_check.report = make_report(run=make_run(notes=("dim B is kept below 4",)))
    result = run("check", "k")
    assert (result.exit_code, result.stdout.count("\n")) == (0, 2)
    assert result.stderr == "note: dim B is kept below 4\n"
    assert "\x1b" not in result.output


def test_a_failure_ends_with_the_replay_command_and_1(run: Run, fake_check: Any) -> None:
    original = make_record(1, Status.FAIL)
    small = make_record(1, Status.FAIL, make_case(dims={"R": 1, "N": 3}))
    fake_check.report = make_report(
        Status.FAIL, (make_record(0), original), minimal=make_minimal(small, original)
    )
    result = run("check", "k")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == f"replay  gpuemu replay {make_run().id} {small.case.id}"
    assert "gpuemu replay" not in run("check", "k", "--no-store").stdout


def test_quiet_writes_only_the_verdict(run: Run, fake_check: Any) -> None:
    fake_check.report = make_report(run=make_run(notes=("dim B is kept below 4",)))
    result = run("check", "k", "--quiet")
    assert (result.stdout.count("\n"), result.stderr) == (1, "")


def test_json_is_one_document_and_nothing_else(run: Run, fake_check: Any) -> None:
    fake_check.report = make_report(
        Status.FAIL, (make_record(0, Status.FAIL),), run=make_run(notes=("dim B is kept below 4",))
    )
    result = run("check", "k", "--json")
    document = json.loads(result.stdout)
    assert document == {**json.loads(json.dumps(fake_check.report.to_json())), "exit_code": 1}
    assert (result.exit_code, result.stderr) == (1, "")


@pytest.mark.parametrize("output", [(), ("--json",), ("--quiet",)])
def test_what_a_kernel_prints_stays_out_of_the_results(
    run: Run, fake_check: Any, output: tuple[str, ...]
) -> None:
    fake_check.report = make_report()
    fake_check.prints = "hello from the kernel"
    result = run("check", "k", *output)
    assert "hello" not in result.stdout
    assert "hello from the kernel" in result.stderr


@pytest.mark.parametrize("option", [(), ("--json",)])
def test_an_error_of_the_target_is_one_line(run: Run, fake_check: Any, option: tuple[str, ...]) -> None:
    fake_check.error = TargetError("k.py: no such file")
    result = run("check", "k.py::f", *option)
    assert (result.exit_code, result.stderr) == (2, "gpuemu: error: k.py: no such file\n")


def test_an_interrupt_says_what_was_kept(run: Run, fake_check: Any) -> None:
    fake_check.report = make_report(records=(make_record(0), make_record(1, Status.FAIL)))
    fake_check.error = KeyboardInterrupt()
    result = run("check", "k")
    assert result.exit_code == 130
    assert result.stderr == (
        "gpuemu: interrupted: 2 of 2 cases were judged, 1 failing; they are recorded in .gpuemu\n"
    )
    assert "they are not kept (--no-store)" in run("check", "k", "--no-store").stderr


def test_an_interrupt_before_the_first_case(run: Run, fake_check: Any) -> None:
    fake_check.error = KeyboardInterrupt()
    assert run("check", "k").stderr == "gpuemu: interrupted: no case was judged yet\n"


def test_verbose_lists_the_cases(run: Run, fake_check: Any) -> None:
    fake_check.report = make_report()
    assert make_record(1).case.id in run("check", "k", "--verbose").stdout
