"""The self-check finds the faults of an unrepaired interpreter and reports checks that raise."""

from __future__ import annotations

import pytest
from triton.runtime.interpreter import InterpretedFunction

from gpuemu.candidates import triton_interpreter


def test_an_unrepaired_interpreter_is_found_out(bare: None) -> None:
    with triton_interpreter.installed():
        from gpuemu.candidates import triton_selfcheck
    if not isinstance(triton_selfcheck._sum, InterpretedFunction):
        pytest.fail("tests/conftest.py sets TRITON_INTERPRET before any kernel is imported")
    names = [fault.split(":")[0] for fault in triton_selfcheck.find_faults()]
    for name in ("bfloat16 arithmetic", "sums of bfloat16", "`and` between masks", "dot of bfloat16"):
        assert name in names


def test_a_check_that_raises_is_a_fault_with_its_reason() -> None:
    with triton_interpreter.installed():
        from gpuemu.candidates import triton_selfcheck

        def broken() -> bool:
            raise ValueError("first line\nsecond line")

        faults = triton_selfcheck.find_faults(
            [("good", lambda: True), ("bad", lambda: False), ("broken", broken)]
        )
    assert faults == ("bad: wrong result", "broken: ValueError: first line")
