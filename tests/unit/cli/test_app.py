"""The command line as a whole: light help, every ending an exit code and one line, JSON alone on stdout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from gpuemu.cli import app
from gpuemu.errors import (
    ConfigurationError,
    GpuemuError,
    OpDefinitionError,
    StoreError,
    TargetError,
    UnknownOpError,
    UnsupportedEnvironmentError,
    UsageError,
)

SOURCE = Path(app.__file__).parents[2]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app.main, list(arguments))


def run_python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(SOURCE)}, **options,
    )  # fmt: skip


@pytest.fixture
def verb_raises(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Makes the verb `ops` raise."""

    def install(error: BaseException) -> None:
        @click.command("ops")
        @click.option("--json", "as_json", is_flag=True)
        def command(as_json: bool) -> None:
            raise error

        monkeypatch.setattr("gpuemu.cli.ops.command", command)

    return install


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom gpuemu.cli.app import main\n"
        f"try: main({arguments})\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'triton', 'rich', 'sqlite3', 'gpuemu.model.op', 'gpuemu.cli.check'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = run_python("-c", code)
    assert done.stderr.strip() == "[]"
    assert "gpuemu" in done.stdout


@pytest.mark.parametrize("verb", app.VERBS)
def test_help_of_a_verb_needs_no_torch_and_offers_json_and_quiet(verb: str) -> None:
    code = (
        "import sys\nfrom gpuemu.cli.app import main\n"
        f"try: main(['{verb}', '--help'])\nexcept SystemExit: pass\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    done = run_python("-c", code)
    assert done.returncode == 0, done.stderr
    assert "--json" in done.stdout
    assert "--quiet" in done.stdout


def test_the_table_of_verbs_is_the_folder() -> None:
    for verb in app.VERBS:
        command = import_module(f"gpuemu.cli.{verb}").command
        assert command.name == verb
    assert all(verb in run("--help").stdout for verb in app.VERBS)


def test_module_and_version() -> None:
    done = run_python("-m", "gpuemu", "--version")
    assert (done.returncode, done.stdout) == (0, "gpuemu 0.1.0\n")


def test_without_a_verb_the_help_is_shown_as_a_usage_error() -> None:
    result = run()
    assert result.exit_code == 2
    assert result.stdout == run("--help").stdout


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["chek"], "no verb 'chek'; did you mean 'check'?"),
        (["xyz"], "no verb 'xyz'; verbs are check, replay"),
        (["--frobnicate"], "--frobnicate"),
        (["check"], "give a TARGET, or --resume RUN"),
        (["check", "a", "b"], "unexpected extra argument"),
        (["check", "a", "--budget", "0"], "0 is not in the range"),
        (["check", "a", "--seed", str(2**64)], "is not in the range"),
        (["check", "a", "--seed", "-1"], "is not in the range"),
        (["check", "a", "--layouts", "strided,,"], "separated by commas"),
        (["check", "a", "--layouts", "all,contiguous"], "'all' stands for every layout; give it alone"),
        (["check", "a", "--values", "bell,,"], "separated by commas"),
        (
            ["check", "softmax_triton", "--values", "adverserial"],
            "value class adverserial: did you mean adversarial? op 's",
        ),
        (["check", "a", "--device", "cuda:x"], "unknown device 'cuda:x'; use cpu, cuda or cuda:N"),
        (["check", "a", "--device", "cuda:"], "unknown device 'cuda:'"),
        (["check", "a", "--device", "CPU"], "unknown device 'CPU'"),
        (["replay", "latest", "a", "--device", "cuda:-1"], "unknown device 'cuda:-1'"),
        (["study", "p1", "--device", "gpu"], "unknown device 'gpu'"),
        (["replay", "latest"], "Missing argument 'CASE'"),
        (["study", "p9", "--json"], "unknown study 'p9'; known: p1"),
        (["ops", "relu", "--corpus"], "not both"),
    ],
)
def test_mistakes_in_the_arguments_are_one_line_and_2(arguments: list[str], line: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("gpuemu: error: ")
    assert line in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (GpuemuError("x"), 3),
        (UsageError("x"), 2),
        (TargetError("x"), 2),
        (UnknownOpError("x"), 2),
        (ConfigurationError("x"), 2),
        (OpDefinitionError("x"), 2),
        (UnsupportedEnvironmentError("x"), 3),
        (StoreError("x"), 3),
        (click.UsageError("x"), 2),
        (click.BadParameter("x"), 2),
    ],
)
def test_errors_on_purpose_are_one_line(verb_raises: Callable[..., None], error: Exception, code: int) -> None:
    verb_raises(error)
    result = run("ops")
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("gpuemu: error: ")
    assert result.stderr.count("\n") == 1


def test_a_message_of_several_lines_stays_one_line(verb_raises: Callable[..., None]) -> None:
    verb_raises(TargetError("first\n  second\tthird"))
    assert run("ops").stderr == "gpuemu: error: first second third\n"


@pytest.mark.parametrize("error", [ZeroDivisionError("oops"), SystemExit(0), AssertionError()])
def test_our_own_bug_is_a_traceback_and_3(verb_raises: Callable[..., None], error: BaseException) -> None:
    verb_raises(error)
    result = run("ops")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "Traceback (most recent call last)" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("gpuemu: error: this is a bug in gpuemu: please report")


@pytest.mark.parametrize("kind", [TargetError, ZeroDivisionError, KeyboardInterrupt])
@pytest.mark.parametrize("arguments", [("ops",), ("ops", "--json")])
def test_a_message_cannot_command_the_terminal(
    verb_raises: Callable[..., None], kind: type[BaseException], arguments: tuple[str, ...]
) -> None:
    verb_raises(kind("a \x1b]0;pwn\x07 \x9b31m \x7f b"))
    result = run(*arguments)
    assert "\N{REPLACEMENT CHARACTER}]0;pwn\N{REPLACEMENT CHARACTER}" in result.stderr
    assert not {"\x1b", "\x07", "\x9b", "\x7f"} & set(result.output)


def test_an_interrupt_is_one_line_and_130(verb_raises: Callable[..., None]) -> None:
    verb_raises(KeyboardInterrupt())
    result = run("ops")
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "gpuemu: interrupted: nothing was lost\n"


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (TargetError("no such file"), "TargetError", 2),
        (StoreError("damaged"), "StoreError", 3),
        (ZeroDivisionError("oops"), "ZeroDivisionError", 3),
        (KeyboardInterrupt("3 of 64"), "Interrupted", 130),
    ],
)
def test_with_json_every_error_is_a_document(
    verb_raises: Callable[..., None], error: BaseException, kind: str, code: int
) -> None:
    verb_raises(error)
    result = run("ops", "--json")
    assert json.loads(result.stdout) == {"error": {"type": kind, "message": str(error)}, "exit_code": code}
    assert result.exit_code == code


def test_with_json_a_usage_error_is_a_document_too() -> None:
    result = run("check", "--json")
    document = json.loads(result.stdout)
    assert (document["exit_code"], document["error"]["type"]) == (2, "UsageError")


@pytest.mark.parametrize("arguments", [["ops", "--corpus"], ["ops", "--corpus", "--json"], ["ops", "-q"]])
def test_a_reader_that_goes_away_is_no_traceback(arguments: list[str]) -> None:
    code = f"from gpuemu.cli.app import main; main({arguments})"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 3


def test_letters_that_the_terminal_lacks_do_not_stop_us(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import gpuemu\n"
        "op = gpuemu.Op('mine', inputs={'x': 'N'}, dims={'N': 4}, reference=abs, doc='|x| \u2264 1')\n",
        encoding="utf-8",
    )
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "gpuemu", "ops", "mine.py::op"],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "mine  |x| \\u2264 1"), done.stderr
