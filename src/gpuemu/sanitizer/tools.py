"""Running compute-sanitizer's tools: first on a planted bug, then on the program that is to be looked at."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuemu import environment
from gpuemu.model.sanitizer import SanitizerFinding, SanitizerResult
from gpuemu.sanitizer import output, planted

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
PROGRAM = "compute-sanitizer"
PLACES = ("/usr/local/cuda/bin", "/opt/cuda/bin")
TIMEOUT_S = 300.0
OUTPUT_BYTES = 1 << 22  # read back; a tool stops printing long before
MOST_PRINTED = 100  # findings a run


@dataclass(frozen=True)
class Ended:
    """A run under a tool.

    text: what it printed. problem: why it says nothing about the program; "" if it does.
    """

    text: str
    problem: str = ""


def find_program(path: str | None = None) -> str | None:
    """compute-sanitizer on PATH, in a CUDA toolkit, or in NVIDIA's wheel."""
    found = shutil.which(path or PROGRAM)
    if found is not None or path is not None:
        return found
    places = [Path(place) for place in PLACES]
    places += [
        folder for entry in sys.path for folder in Path(entry or ".").glob("nvidia/cu*/compute-sanitizer")
    ]
    return next((str(place / PROGRAM) for place in places if (place / PROGRAM).is_file()), None)


def sanitize(
    command: Sequence[str],
    done: str,
    tools: Sequence[str] = TOOLS,
    program: str | None = None,
    timeout_s: float = TIMEOUT_S,
) -> list[SanitizerResult]:
    """What each tool says of a command, which prints `done` when it has done what it is to be watched at."""
    found = find_program(program)
    if found is None:
        return [SanitizerResult(tool, "unavailable", reason=f"{PROGRAM} was not found") for tool in tools]
    return [_look(found, tool, command, done, timeout_s) for tool in tools]


def try_tool(program: str, tool: str, timeout_s: float = TIMEOUT_S) -> str:
    """Why a tool is not to be believed here; "" if it finds its planted bug and nothing beside it."""
    ended = _run(program, tool, [sys.executable, "-m", planted.__name__, tool], planted.DONE, timeout_s)
    if ended.problem:
        return ended.problem
    kernels = {finding.kernel for finding in output.parse(ended.text)}
    if f"planted_{tool}" not in kernels:
        return "it did not find the bug that was planted for it"
    if f"right_{tool}" in kernels:
        return "it found a bug where there is none"
    return ""


def _look(program: str, tool: str, command: Sequence[str], done: str, timeout_s: float) -> SanitizerResult:
    reason = try_tool(program, tool, timeout_s)
    if reason:
        return SanitizerResult(tool, "unavailable", reason=reason)
    ended = _run(program, tool, command, done, timeout_s)
    findings: tuple[SanitizerFinding, ...] = output.parse(ended.text)
    if findings:  # also of a program that did not come to its end: a fault may be why
        return SanitizerResult(tool, "findings", findings)
    if ended.problem:
        return SanitizerResult(tool, "unavailable", reason=ended.problem)
    return SanitizerResult(tool, "clean")


def _run(program: str, tool: str, command: Sequence[str], done: str, timeout_s: float) -> Ended:
    watched = [
        program,
        "--tool",
        tool,
        "--report-api-errors",
        "no",
        "--print-limit",
        str(MOST_PRINTED),
        *command,
    ]
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(  # noqa: S603 - our own command line
            watched, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT,
            env=environment.make_sanitizer_environment(), start_new_session=True,
        )  # fmt: skip
        try:
            process.wait(timeout_s)
            problem = ""
        except subprocess.TimeoutExpired:
            problem = f"it took longer than {timeout_s:g} s"
        _end(process)
        printed.seek(0)
        text = printed.read(OUTPUT_BYTES).decode(errors="replace")
    if not problem and not (output.has_finished(text) and done in text):
        problem = output.complaint(text)
    return Ended(text, problem)


def _end(process: subprocess.Popen[bytes]) -> None:
    """What the tool started goes with it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()
