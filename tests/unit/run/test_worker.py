"""A candidate in a worker: what it gives, how it is lost, and that the next call finds another."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from gpuemu.errors import TargetError
from gpuemu.run.calling import Manner, Returned
from gpuemu.run.worker import SMALLEST_ARENA_BYTES, Job, Limits, WorkerCaller

CANDIDATES = """
import ctypes, os, signal, sys, threading, time
import torch

calls = []

def double(x): return x * 2
def two(x, w, scale): return x * w * scale, x.sum()
def strides(x): return torch.tensor(x.stride()), torch.tensor(x.untyped_storage().nbytes())
def writes(x): x[0] = 9.0; return x.clone()
def view(x): return x[1:]
def raises(x): raise ValueError("not today")
def segfault(x): ctypes.string_at(0)
def leaves(x): os._exit(0)
def exits(x): sys.exit(3)
def killed(x): os.kill(os.getpid(), signal.SIGKILL)
def hangs(x): time.sleep(600)
def big(x): return torch.empty(1).expand(1 << 40)
def garbage(x):
    for file in range(3, 32):
        try: os.write(file, b"\\xff" * 64)
        except OSError: pass
    return x
def forged(x):
    import json, struct
    text = json.dumps({"answer": "0", "outputs": []}).encode()
    for file in range(3, 32):
        try: os.write(file, struct.pack("<I", len(text)) + text)
        except OSError: pass
    return x
def closes(x): os.closerange(3, 64); return x
def prints(x): print("words " * 40_000); return x
def third(x):
    calls.append(1)
    if len(calls) == 3: os.abort()
    return x + len(calls)
def later(x):
    y = torch.zeros(3)
    def write():
        time.sleep(0.05)
        y.fill_(7)
    threading.Thread(target=write).start()
    return y
def environment(x):
    return torch.tensor(list((" ".join([*os.environ, *sys.argv])).encode()))
"""
X = torch.tensor([1.0, -2.0, 3.0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("candidates")
    (folder / "kernels.py").write_text(CANDIDATES)
    (folder / "broken.py").write_text("import nothing_of_that_name\n")
    (folder / "deadly.py").write_text("import os\nos.abort()\n")
    return folder


@pytest.fixture(scope="module")
def caller(folder: Path) -> Iterator[WorkerCaller]:
    with WorkerCaller(limits=Limits(timeout_s=20.0, memory_bytes=4 << 30, output_bytes=1 << 24)) as caller:
        yield caller


def ask(caller: WorkerCaller, x: torch.Tensor = X) -> Returned:
    return caller.call(caller.place({"x": x}, "nan"), {}, Manner())


def load(caller: WorkerCaller, folder: Path, function: str) -> None:
    caller.load(Job(f"{folder / 'kernels.py'}::{function}"))


def test_outputs_are_those_of_the_candidate(caller: WorkerCaller, folder: Path) -> None:
    load(caller, folder, "two")
    placed = caller.place({"x": X, "w": X}, "nan")
    returned = caller.call(placed, {"scale": 2.0}, Manner())
    assert [output.tolist() for output in returned.outputs] == [[2.0, 8.0, 18.0], 2.0]
    assert returned.is_usable


def test_strides_and_storage_are_those_of_the_case(caller: WorkerCaller, folder: Path) -> None:
    load(caller, folder, "strides")
    strided = torch.zeros(40)[3:].as_strided((4, 3), (9, 2))
    strides, size_bytes = ask(caller, strided).outputs
    assert (strides.tolist(), int(size_bytes)) == ([9, 2], 160)


def test_what_it_writes_to_an_input_shows_on_this_side(caller: WorkerCaller, folder: Path) -> None:
    load(caller, folder, "writes")
    placed = caller.place({"x": X}, "nan")
    caller.call(placed, {}, Manner())
    assert placed.views["x"].tolist() == [9.0, -2.0, 3.0]
    assert X.tolist() == [1.0, -2.0, 3.0]


def test_inputs_of_any_size_follow_one_another(caller: WorkerCaller, folder: Path) -> None:
    """What was laid out before is used again where it can be, and the memory is grown where it must be."""
    load(caller, folder, "double")
    large = torch.arange(SMALLEST_ARENA_BYTES / 2)
    for x in (X, X + 1, torch.ones(2, 2), large, X, large + 1, torch.ones(2, 2).t()):
        assert torch.equal(ask(caller, x).outputs[0], x * 2)


def test_a_view_of_an_input_is_named(caller: WorkerCaller, folder: Path) -> None:
    load(caller, folder, "view")
    returned = ask(caller)
    assert (returned.aliases, returned.outputs[0].tolist()) == (((0, "x"),), [-2.0, 3.0])


def test_an_exception_comes_over(caller: WorkerCaller, folder: Path) -> None:
    load(caller, folder, "raises")
    exception = ask(caller).exception
    assert exception is not None
    assert (exception.type, exception.message, exception.refused) == ("ValueError", "not today", True)
    assert exception.location.startswith("kernels.py:")
    load(caller, folder, "exits")
    assert (ask(caller).exception or exception).type == "SystemExit"


@pytest.mark.parametrize(
    ("function", "kind", "says"),
    [
        ("segfault", "crash", "ended by SIGSEGV"),
        ("leaves", "crash", "ended itself with exit status 0"),
        ("killed", "crash", "ended by SIGKILL"),
        ("closes", "crash", "exit status 0"),
        ("big", "output_size", "4398046511104 bytes; 16777216 are allowed"),
        ("garbage", "protocol", "bytes"),
        ("forged", "protocol", "an answer to no question"),
    ],
)
def test_a_lost_worker_is_said_and_replaced(
    caller: WorkerCaller, folder: Path, function: str, kind: str, says: str
) -> None:
    load(caller, folder, function)
    for _ in range(2):
        crash = ask(caller).crash
        assert crash is not None
        assert crash.kind == kind
        assert says in crash.message
    load(caller, folder, "double")
    assert ask(caller).outputs[0].tolist() == [2.0, -4.0, 6.0]


def test_a_call_without_end_is_ended(caller: WorkerCaller, folder: Path) -> None:
    with WorkerCaller(limits=Limits(timeout_s=0.3)) as impatient:
        load(impatient, folder, "hangs")
        started = time.monotonic()
        crash = ask(impatient).crash
        assert crash is not None
        assert (crash.kind, crash.message) == ("hang", "no answer within 0.3 s")
        assert time.monotonic() - started < 10


def test_a_crash_now_and_then_costs_only_its_own_call(caller: WorkerCaller, folder: Path) -> None:
    load(caller, folder, "third")
    answers = [ask(caller) for _ in range(7)]
    assert [answer.crash is None for answer in answers] == [True, True, False, True, True, False, True]
    assert answers[3].outputs[0].tolist() == [2.0, -1.0, 4.0]  # of a new process, which counts anew


def test_what_is_printed_is_kept_to_a_bound(caller: WorkerCaller, folder: Path) -> None:
    load(caller, folder, "prints")
    for _ in range(3):
        assert ask(caller).is_usable
    assert 0 < len(caller.printed) <= 1 << 16


def test_an_output_is_what_it_was_when_the_call_returned(caller: WorkerCaller, folder: Path) -> None:
    load(caller, folder, "later")
    returned = ask(caller)
    time.sleep(0.1)
    assert returned.outputs[0].tolist() == [0.0, 0.0, 0.0]


def test_neither_seed_nor_secrets_are_in_its_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUEMU_STORE", "/somewhere")
    monkeypatch.setenv("SECRET_TOKEN", "s3cr3t")
    with WorkerCaller() as caller:
        load(caller, folder, "environment")
        words = bytes(ask(caller).outputs[0].tolist()).decode()
    assert "GPUEMU" not in words
    assert "SECRET" not in words
    assert "PATH" in words


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("kernels.py::nothing", "has no 'nothing'"),
        ("broken.py::f", "nothing_of_that_name"),
        ("deadly.py::f", "ended by SIGABRT"),
    ],
)
def test_an_import_that_fails_is_said(caller: WorkerCaller, folder: Path, target: str, says: str) -> None:
    with pytest.raises(TargetError, match=says):
        caller.load(Job(str(folder / target)))


def test_a_signature_that_does_not_suit_is_said(caller: WorkerCaller, folder: Path) -> None:
    with pytest.raises(TargetError, match="cannot be called as op 'add'"):
        caller.load(Job(f"{folder / 'kernels.py'}::double", op="add", inputs=("a", "b"), params=("alpha",)))


def test_nothing_is_left_when_it_is_closed(folder: Path) -> None:
    before = children()
    with WorkerCaller() as caller:
        load(caller, folder, "double")
        ask(caller)
        assert children() > before
    assert children() == before


def children() -> set[str]:
    """Process numbers of this process's children."""
    number = os.getpid()
    return set(Path(f"/proc/{number}/task/{number}/children").read_text().split())
