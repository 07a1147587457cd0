"""`gpuemu sanitize`: exit codes and what is shown."""

from __future__ import annotations

import pytest

from gpuemu.cli import sanitize
from gpuemu.model.sanitizer import SanitizerFinding, SanitizerResult, State
from gpuemu.sanitizer import tools


@pytest.mark.parametrize(
    ("states", "code"),
    [
        (("clean", "clean"), 0),
        (("clean", "unavailable"), 0),
        (("unavailable", "findings"), 1),
        (("unavailable", "unavailable"), 4),
    ],
)
def test_exit_codes(states: tuple[State, ...], code: int) -> None:
    found = (SanitizerFinding("Invalid", "kernel+0x8"),)
    results = tuple(SanitizerResult("memcheck", s, found if s == "findings" else ()) for s in states)
    assert sanitize.exit_code(results) == code


def test_the_tools_are_those_that_can_be_run() -> None:
    assert sanitize.TOOLS == tools.TOOLS


def test_a_place_names_its_kernel() -> None:
    assert SanitizerFinding("", "relu_kernel+0x40 in relu.py:7").kernel == "relu_kernel"
    assert SanitizerFinding("", "void at::copy<int>(int*)+0x4").kernel == "void at::copy<int>"
    assert SanitizerFinding("", "").kernel == ""
