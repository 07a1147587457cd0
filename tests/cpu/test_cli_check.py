"""`gpuemu check` and `replay` end to end, on kernel files such as a user brings: in torch and in Triton."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gpuemu.cli import app

Run = Callable[..., Result]

SOFTMAX = """
import torch
from torch.nn.functional import softmax

def right(x):
    return softmax(x.float(), dim=-1).to(x.dtype)

def zeros(x):
    return torch.zeros_like(x)

def tail(x):
    y = right(x)
    if x.shape[-1] % 8:
        y[..., -1] *= 2
    return y

def shape(x):
    return right(x)[..., None]

def dtype(x):
    return softmax(x.double(), dim=-1)

def raises(x):
    return x @ torch.zeros(x.shape[-1] + 1, 1)

def raises_on_purpose(x):
    raise ValueError("not today")

def nothing(x):
    softmax(x, dim=-1)

def ignores_strides(x):
    plain = x.as_strided(x.shape, torch.empty(x.shape).stride(), x.storage_offset())
    return right(plain)

def contiguous_only(x):
    if not x.is_contiguous():
        raise ValueError("x must be contiguous")
    return right(x)

def two_arguments(x, y):
    return x

def overwrites(x):
    y = right(x)
    x.zero_()
    return y

def talks(x):
    print("hello")
    return right(x)

not_callable = 3
"""

TRITON = """
import torch, triton
import triton.language as tl

@triton.jit
def kernel(x, y, n, limit, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + offsets, mask=offsets < n, other=0.0)
    tl.store(y + offsets, tl.maximum(values, 0.0), mask=offsets < limit)

def launch(x, limit):
    x = x.contiguous()
    y = torch.zeros_like(x)
    if x.numel():
        kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), limit, BLOCK=256)
    return y

def relu(x):
    return launch(x, x.numel())

def relu_without_tail(x):
    return launch(x, x.numel() // 256 * 256)
"""

OPS = """
import gpuemu

DIMS = {"R": gpuemu.Dim(1, 8), "N": gpuemu.Dim(1, 64)}
mine = gpuemu.Op("mine", inputs={"x": "R N"}, dims=DIMS, reference=lambda x: x.softmax(-1))
bad = gpuemu.Op("bad", inputs={"x": "R N"}, dims=DIMS, reference=lambda x: x.no_such_method())
"""

FILES = {
    "softmax.py": SOFTMAX,
    "kernels.py": TRITON,
    "broken.py": "def right(x):\n    return (x\n",
    "unimportable.py": "import torch\nraise RuntimeError('no such device')\n",
    "needs.py": "import a_package_that_nobody_has\n",
    "nul.py": "x = 1\0\n",
    "my_ops.py": OPS,
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line in a folder with the kernel files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUEMU_STORE", raising=False)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "folder.py").mkdir()
    return lambda *arguments: CliRunner().invoke(app.main, list(arguments))


def check(run: Run, function: str, *flags: str) -> Result:
    return run("check", f"softmax.py::{function}", "--op", "softmax", "--budget", "12", "--seed", "0", *flags)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent.py::f", "--op", "softmax"], ["absent.py", "no such file"]),
        (["broken.py::right", "--op", "softmax"], ["broken.py:2", "syntax error"]),
        (["unimportable.py::f", "--op", "softmax"], ["unimportable.py:2", "RuntimeError: no such device"]),
        (["needs.py::f", "--op", "softmax"], ["needs.py:1", "a_package_that_nobody_has"]),
        (["softmax.py::rihgt", "--op", "softmax"], ["softmax.py", "'rihgt'", "did you mean right?"]),
        (["softmax.py::not_callable", "--op", "softmax"], ["not_callable", "cannot be called"]),
        (["softmax.py::two_arguments", "--op", "softmax"], ["two_arguments(x, y)", "cannot be called"]),
        (["softmax.py", "--op", "softmax"], ["softmax.py", "file.py::function"]),
        (["softmax.py::right", "--op", "sotfmax"], ["unknown op 'sotfmax'", "did you mean softmax"]),
        (["softmax.py::right", "--op", "absent.py::op"], ["absent.py", "no such file"]),
        (["softmax.py::right", "--op", "softmax.py::right"], ["not a gpuemu.Op"]),
        (["softmax.py::right"], ["which op is it?", "its signature fits"]),
        (["softmax_tirton"], ["softmax_tirton", "did you mean softmax_triton"]),
        (["no.such.module:f", "--op", "softmax"], ["no.such.module", "cannot be imported"]),
        (["softmax.py::right", "--op", "softmax", "--dtype", "fp32"], ["fp32", "float32"]),
        (["softmax.py::right", "--op", "softmax", "--layouts", "columns"], ["columns", "row_gap"]),
        (["softmax.py::right", "--op", "softmax", "--profile", "P9"], ["P9", "P2"]),
        (["softmax.py::right", "--op", "softmax", "--strategy", "luck"], ["luck", "covering"]),
        (["softmax.py::right", "--op", "softmax", "--device", "tpu"], ["tpu", "cpu, cuda or cuda:N"]),
        (["folder.py::right", "--op", "softmax"], ["folder.py: a directory"]),
        (["softmax\0.py::right", "--op", "softmax"], ["softmax\N{REPLACEMENT CHARACTER}.py: no such file"]),
        (["nul.py::right", "--op", "softmax"], ["nul.py", "syntax error", "null bytes"]),
        (["x" * 300 + ".py::right", "--op", "softmax"], ["File name too long"]),
    ],
)
def test_what_cannot_be_checked_is_one_line_and_2(run: Run, arguments: list[str], words: list[str]) -> None:
    result = run("check", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("gpuemu: error: ")
    assert result.stderr.count("\n") == 1
    assert [word for word in words if word not in result.stderr] == []


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        ("zeros", "value", "elements outside the bound"),
        ("tail", "value", "elements outside the bound"),
        ("shape", "shape", ""),
        ("dtype", "dtype", "float64"),
        ("nothing", "shape", "NoneType"),
        ("raises", "error", "RuntimeError"),
        ("raises_on_purpose", "error", "ValueError: not today"),
        ("ignores_strides", "layout", "wrong only on non-contiguous inputs"),
        ("overwrites", "guard:mutation", "x"),
    ],
)
def test_a_wrong_kernel_ends_with_1(run: Run, function: str, kind: str, words: str) -> None:
    result = check(run, function)
    assert (result.exit_code, result.exception and type(result.exception)) == (1, SystemExit)
    assert "Traceback" not in result.output
    line = next(line for line in result.stdout.splitlines() if line.split()[:1] == [kind])
    assert words in line
    assert result.stdout.splitlines()[-1].startswith("replay  gpuemu replay ")


@pytest.mark.parametrize("function", ["right", "contiguous_only", "talks"])
def test_a_right_kernel_ends_with_0(run: Run, function: str) -> None:
    result = check(run, function)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1].startswith("PASS  ")
    assert "hello" not in result.stdout


def test_a_wrapper_that_refuses_layouts_is_unsupported_there(run: Run) -> None:
    result = check(run, "contiguous_only")
    assert "unsupported in " in result.stdout
    assert "ValueError: x must be contiguous" in result.stdout


def test_only_the_tail_is_wrong_and_the_minimal_case_is_small(run: Run) -> None:
    document = json.loads(check(run, "tail", "--json").stdout)
    assert document["exit_code"] == 1
    minimal = document["minimal"]["record"]
    sizes = minimal["case"]["dims"]
    assert sizes["B"] * sizes["S"] == 1
    assert sizes["H"] < 8
    assert minimal["verdict"]["worst"]["index"][-1] == sizes["H"] - 1
    assert set(minimal["case"]["layouts"].values()) == {"contiguous"}


def test_a_case_of_unsupported_layouts_only_establishes_nothing(run: Run) -> None:
    assert check(run, "contiguous_only", "--layouts", "strided").exit_code == 4


def test_layouts_narrow_the_check(run: Run) -> None:
    assert check(run, "ignores_strides", "--layouts", "contiguous").exit_code == 0


def test_a_single_case_of_one_element_rows_establishes_nothing_about_zeros(run: Run) -> None:
    result = run("check", "softmax.py::right", "--op", "softmax", "--budget", "1", "--seed", "0", "--json")
    document = json.loads(result.stdout)
    assert document["exit_code"] == (0 if not document["adequacy"]["accepted"] else 4)


def test_an_op_of_the_user(run: Run) -> None:
    flags = ("--budget", "8", "--seed", "0")
    assert run("check", "softmax.py::right", "--op", "my_ops.py::mine", *flags).exit_code == 0
    assert run("check", "softmax.py::zeros", "--op", "my_ops.py::mine", *flags).exit_code == 1
    result = run("check", "softmax.py::right", "--op", "my_ops.py::bad", *flags)
    assert result.exit_code == 2  # the user's reference is wrong, not the kernel
    assert result.stdout.splitlines()[1].startswith("INVALID")


def test_a_triton_kernel_that_is_right(run: Run) -> None:
    result = run("check", "kernels.py::relu", "--op", "relu", "--budget", "8", "--seed", "0")
    assert result.exit_code == 0, result.output


def test_a_triton_kernel_that_is_wrong_in_its_tail(run: Run) -> None:
    result = run(
        "check", "kernels.py::relu_without_tail", "--op", "relu", "--budget", "8", "--seed", "0", "--json"
    )
    document = json.loads(result.stdout)
    assert (result.exit_code, document["minimal"]["record"]["verdict"]["kind"]) == (1, "value")


def run_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuemu", *arguments], capture_output=True, text=True, check=False,
        env={key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"},
    )  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [
        ["softmax.py::tail", "--op", "softmax"],
        ["kernels.py::relu_without_tail", "--op", "relu"],
        ["gelu_triton_buggy"],
    ],
)
def test_a_failing_case_replays_in_a_new_process(run: Run, arguments: list[str]) -> None:
    checked = run("check", *arguments, "--budget", "4", "--seed", "7", "--json")
    document = json.loads(checked.stdout)
    assert checked.exit_code == 1, checked.stderr
    command = document["replay_command"].split()
    assert command[0] == "gpuemu"
    replayed = run_process(*command[1:], "--json")
    assert replayed.returncode == 0, replayed.stderr
    result: dict[str, Any] = json.loads(replayed.stdout)
    recorded = document["minimal"]["record"]
    assert result["recorded"] == recorded
    assert result["repeated"]["inputs_sha256"] == recorded["inputs_sha256"]
    assert result["repeated"]["outputs_sha256"] == recorded["outputs_sha256"]
    assert result["repeated"]["verdict"]["worst"] == recorded["verdict"]["worst"]


def test_every_case_of_a_run_replays_by_prefix(run: Run) -> None:
    document = json.loads(check(run, "tail", "--json").stdout)
    for record in document["records"]:
        result = run("replay", "latest", record["case_id"][:10], "--json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["same_outputs"]


def test_a_kernel_that_was_mended_is_not_reproduced(run: Run, tmp_path: Path) -> None:
    document = json.loads(check(run, "tail", "--json").stdout)
    (tmp_path / "softmax.py").write_text(SOFTMAX.replace("*= 2", "*= 1"))
    result = run(*document["replay_command"].split()[1:])
    assert result.exit_code == 1
    assert "source file has changed" in result.stdout
    assert result.stdout.splitlines()[-1] == "NOT REPRODUCED  recorded fail (value), now pass"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["latest", "abc"], 2, "no case 'abc'"),
        (["20200101", "abc"], 2, "no run '20200101'"),
    ],
)
def test_what_is_not_recorded_cannot_be_replayed(run: Run, arguments: list[str], code: int, words: str) -> None:
    check(run, "right")
    result = run("replay", *arguments)
    assert (result.exit_code, result.stderr.count("\n")) == (code, 1)
    assert words in result.stderr


def test_without_a_store_there_is_nothing_to_replay(run: Run, tmp_path: Path) -> None:
    assert check(run, "zeros", "--no-store").exit_code == 1
    assert not (tmp_path / ".gpuemu").exists()
    result = run("replay", "latest", "abc")
    assert (result.exit_code, result.stderr.count("\n")) == (3, 1)
    assert "no run store" in result.stderr


WRITES = """
import ctypes, os, sys, torch
library = ctypes.CDLL(None)

def write(text):
    os.write(1, text)
    library.printf(text)
    sys.__stdout__.write(text.decode())

write(b"at import ")

def right(x):
    write(b"in the call ")
    return torch.relu(x)

def wrong(x):
    return right(x) + 1
"""


@pytest.mark.parametrize("function", ["right", "wrong"])
def test_what_a_kernel_writes_to_the_descriptor_stays_out_of_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUEMU_STORE", raising=False)
    (tmp_path / "writes.py").write_text(WRITES)
    checked = run_process("check", f"writes.py::{function}", "--op", "relu", "--budget", "3", "--json")
    record = json.loads(checked.stdout)["records"][0]  # the result itself still arrives on stdout
    assert checked.stderr.count("at import ") == 3
    assert checked.stderr.count("in the call ") >= 9
    replayed = run_process("replay", "latest", record["case_id"], "--json")
    assert json.loads(replayed.stdout)["same_outputs"]
    assert replayed.stderr.count("in the call ") >= 3


@pytest.mark.parametrize("option", [(), ("--json",)])
def test_an_escape_sequence_in_an_error_does_not_reach_the_terminal(
    run: Run, tmp_path: Path, option: tuple[str, ...]
) -> None:
    (tmp_path / "escape.py").write_text('raise RuntimeError("\\x1b]0;pwn\\x07 \\x9b31m")')
    result = run("check", "escape.py::f", "--op", "softmax", *option)
    assert result.exit_code == 2
    assert "]0;pwn" in result.stderr
    assert not {"\x1b", "\x07", "\x9b"} & set(result.output)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('dtypes = ["int8"]', "dtype int8: op 'softmax' has float32"),
        ('strategy = "luck"', "unknown strategy 'luck'"),
    ],
)
def test_a_value_of_the_configuration_that_the_op_cannot_have_is_named_with_its_file(
    run: Run, tmp_path: Path, line: str, words: str
) -> None:
    (tmp_path / "gpuemu.toml").write_text(line)
    result = check(run, "right")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert f"{tmp_path / 'gpuemu.toml'}: {words}" in result.stderr
    flag = check(run, "right", "--dtype", "int8")
    assert "gpuemu.toml: dtype" not in flag.stderr  # the flag's own mistake
