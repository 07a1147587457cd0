"""The grid, the count of programs, and what a failing program leaves behind."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.errors import InterpreterError

from gpuemu.candidates import triton_interpreter, triton_language
from gpuemu.errors import CandidateRefusedError

pytestmark = pytest.mark.usefixtures("interpreted")


@triton.jit
def record_ids(y):
    x, yy, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    index = (x * tl.num_programs(1) + yy) * tl.num_programs(2) + z
    tl.store(y + index, index + 100)


@triton.jit
def record_size(y, n, BLOCK: tl.constexpr):
    tl.store(y + tl.program_id(0), n)


@triton.jit
def fails(y, n):
    tl.store(y, n.no_such_attribute)


@triton.jit
def inline_assembly(y):
    value = tl.inline_asm_elementwise("mov.u32 $0, 1;", "=r", [], tl.int32, True, 1)
    tl.store(y, value)


def test_every_program_of_a_three_dimensional_grid_runs_once() -> None:
    y = torch.zeros(24, dtype=torch.int32)
    record_ids[(2, 3, 4)](y)
    assert y.tolist() == list(range(100, 124))


def test_a_grid_function_sees_plain_values() -> None:
    y = torch.zeros(4, dtype=torch.int32)
    seen = []

    def grid(meta: dict[str, object]) -> tuple[int]:
        seen.append(dict(meta))
        return (triton.cdiv(meta["n"], meta["BLOCK"]),)

    record_size[grid](y, 7, BLOCK=2)
    assert y.tolist() == [7, 7, 7, 7]
    assert seen[0]["n"] == 7 and type(seen[0]["n"]) is int and seen[0]["y"] is y


def test_an_empty_grid_runs_nothing() -> None:
    y = torch.zeros(1, dtype=torch.int32)
    with triton_interpreter.count_programs() as count:
        record_size[(0,)](y, 7, BLOCK=2)
    assert count.programs == 0 and y.item() == 0


def test_a_grid_of_four_dimensions_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 3 dimensions"):
        record_ids[(1, 1, 1, 1)](torch.zeros(1, dtype=torch.int32))


def test_programs_are_counted_by_launch() -> None:
    y = torch.zeros(24, dtype=torch.int32)
    before = triton_interpreter.program_count()
    with triton_interpreter.count_programs() as outer:
        record_ids[(2, 3, 4)](y)
        with triton_interpreter.count_programs() as inner:
            record_size[(5,)](y, 7, BLOCK=2)
    record_size[(1,)](y, 7, BLOCK=2)
    assert outer.programs == 29 and inner.programs == 5
    assert [(launch.kernel, launch.grid) for launch in outer.launches] == [
        ("record_ids", (2, 3, 4)),
        ("record_size", (5, 1, 1)),
    ]
    assert triton_interpreter.program_count() - before == 30


def test_a_failing_program_restores_the_language() -> None:
    load, reduce = tl.load, tl.reduce
    with pytest.raises(InterpreterError, match="no_such_attribute"):
        fails[(1,)](torch.zeros(1), 3)
    assert tl.load is load and tl.reduce is reduce
    assert not triton_language.is_active()


def test_what_the_tier_cannot_do_is_refused_by_name() -> None:
    with pytest.raises(CandidateRefusedError, match="inline_asm_elementwise is not available on the CPU tier"):
        inline_assembly[(1,)](torch.zeros(1, dtype=torch.int32))


def test_pre_run_hooks_see_the_arguments() -> None:
    y = torch.full((1,), 9, dtype=torch.int32)
    seen = []
    record_size.add_pre_run_hook(lambda *args, **kwargs: seen.append((args[1], kwargs)))
    try:
        record_size[(1,)](y, 7, BLOCK=2)
    finally:
        record_size.pre_run_hooks.clear()
    assert seen == [(7, {"BLOCK": 2})]


def test_a_device_function_can_be_called_from_the_host() -> None:
    assert tl.cdiv(7, 2) == 4
