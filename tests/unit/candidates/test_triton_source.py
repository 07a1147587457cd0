"""Kernels whose Python meaning differs from their Triton meaning: here the Triton meaning must win."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from triton.compiler.code_generator import CodeGenerator
from triton.language import load as load_by_name
from triton.language.extra import libdevice
from triton.language.extra.libdevice import tanh as tanh_by_name
from triton.language.math import rsqrt as rsqrt_by_name
from triton.runtime.errors import InterpreterError

pytestmark = pytest.mark.usefixtures("interpreted")

SCALE = tl.constexpr(3)


@triton.jit
def masks(x, y, low, high, OP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if OP == "and":
        mask = (i >= low) and (i < high)
    elif OP == "or":
        mask = i < low or i >= high
    elif OP == "not":
        mask = not (i < low)
    elif OP == "three":
        mask = (i >= low) and (i < high) and (i != 4)
    elif OP == "static":
        mask = BLOCK > 4 and i < high
    tl.store(y + i, tl.load(x + i), mask=mask)


@triton.jit
def chained(x, y, low, high, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i), mask=low <= i < high)


@pytest.mark.parametrize(
    ("op", "kept"),
    [
        ("and", [2, 3, 4, 5]),
        ("or", [0, 1, 6, 7]),
        ("not", [2, 3, 4, 5, 6, 7]),
        ("three", [2, 3, 5]),
        ("static", [0, 1, 2, 3, 4, 5]),
    ],
)
def test_boolean_operators_combine_masks(op: str, kept: list[int]) -> None:
    y = torch.full((8,), -1.0)
    masks[(1,)](torch.arange(8.0), y, 2, 6, OP=op, BLOCK=8)
    assert [i for i in range(8) if y[i] >= 0] == kept


def test_chained_comparison_is_a_conjunction_or_refused_as_by_the_compiler() -> None:
    y = torch.full((8,), -1.0)
    if hasattr(CodeGenerator, "_apply_boolean_values"):
        chained[(1,)](torch.arange(8.0), y, 2, 6, BLOCK=8)
        assert [i for i in range(8) if y[i] >= 0] == [2, 3, 4, 5]
    else:
        with pytest.raises(
            (InterpreterError, NotImplementedError), match="multiple comparison is not supported"
        ):
            chained[(1,)](torch.arange(8.0), y, 2, 6, BLOCK=8)


@triton.jit
def conditions(x, y, FORM: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    value = tl.load(x + i)
    if FORM == "block if":
        if value > 0.0:
            value = -value
    elif FORM == "block ifexp":
        value = value if value > 0.0 else -value
    elif FORM == "scalar if":
        if tl.sum(value) > 0.0:
            value = -value
    elif FORM == "scalar ifexp":
        value = value if tl.max(value) > 100.0 else -value
    elif FORM == "while":
        count = 0
        while tl.max(value) < 100.0:
            value = value * 2.0
            count += 1
    tl.store(y + i, value)


@pytest.mark.parametrize("form", ["block if", "block ifexp"])
def test_a_block_is_no_condition(form: str) -> None:
    with pytest.raises(InterpreterError, match="more than one value is ambiguous"):
        conditions[(1,)](torch.arange(8.0), torch.zeros(8), FORM=form, BLOCK=8)


@pytest.mark.parametrize(("form", "factor"), [("scalar if", -1.0), ("scalar ifexp", -1.0), ("while", 16.0)])
def test_a_scalar_is_a_condition(form: str, factor: float) -> None:
    x, y = torch.arange(8.0), torch.zeros(8)
    conditions[(1,)](x, y, FORM=form, BLOCK=8)
    assert torch.equal(y, x * factor)


@triton.jit
def extremes(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    value = tl.load(x + i)
    tl.store(y + i, min(max(value, 2.0), n.to(tl.float32)))
    tl.store(y, min(n, 3).to(tl.float32))


@pytest.mark.filterwarnings("ignore:builtin m")
def test_python_min_and_max_are_elementwise() -> None:
    y = torch.zeros(8)
    extremes[(1,)](torch.arange(8.0), y, 5, BLOCK=8)
    assert y.tolist() == [3.0, 2.0, 2.0, 3.0, 4.0, 5.0, 5.0, 5.0]


@triton.jit
def loops(y, n, FORM: tl.constexpr):
    total = tl.zeros([1], tl.int64)
    if FORM == "range":
        for i in range(n):
            total += i.to(tl.int64)
    elif FORM == "range with bounds":
        for i in range(1, n, 2):
            total += i.to(tl.int64)
    elif FORM == "tl.range":
        for i in tl.range(0, n, 1, num_stages=2):
            total += i.to(tl.int64)
    elif FORM == "static_range":
        for i in tl.static_range(4):
            total += i
    elif FORM == "down":
        for i in range(n, 0, -1):
            total = total * 2 + i
    elif FORM == "overflow":
        for i in range(n - 1, n):
            total += i * 1000000000
    tl.store(y + tl.arange(0, 1), total)


@pytest.mark.parametrize(
    ("form", "n", "expected"),
    [
        ("range", 5, 10),
        ("range", 0, 0),
        ("range with bounds", 6, 9),
        ("tl.range", 5, 10),
        ("static_range", 5, 6),
        ("down", 3, 17),
        ("overflow", 6, 5_000_000_000 - 2**32),  # int32 wraps, as on a device
    ],
)
def test_loop_variables_are_32_bit_scalars(form: str, n: int, expected: int) -> None:
    y = torch.zeros(1, dtype=torch.int64)
    loops[(1,)](y, n, FORM=form)
    assert y.item() == expected


@triton.jit
def wrong_loop(y, n):
    for i in range(0.5, n):
        tl.store(y + i, 0.0)


def test_float_loop_bounds_are_refused() -> None:
    with pytest.raises(InterpreterError, match="loop bounds must be integers"):
        wrong_loop[(1,)](torch.zeros(2), 2)


@triton.jit
def by_name(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    value = load_by_name(x + i)
    tl.store(y + i, rsqrt_by_name(value) + tanh_by_name(value) + libdevice.tanh(value))


def test_builtins_imported_by_name_work_and_are_restored() -> None:
    x, y = torch.arange(1.0, 9.0), torch.zeros(8)
    by_name[(1,)](x, y, BLOCK=8)
    torch.testing.assert_close(y, torch.rsqrt(x) + 2 * torch.tanh(x))
    assert load_by_name is tl.load and rsqrt_by_name is tl.math.rsqrt and tanh_by_name is libdevice.tanh
    for function in (tl.load, tl.math.rsqrt, tl.tensor.__add__):
        assert function.__triton_builtin__  # the compiler's own, not the interpreter's
    assert "__bool__" not in vars(tl.tensor)


def make_kernel(offset: tl.constexpr):
    @triton.jit
    def captured(y, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(y + i, i + offset * SCALE)

    return captured


def test_captured_variables_stay_bound_to_their_own_closure() -> None:
    first, second = make_kernel(tl.constexpr(10)), make_kernel(tl.constexpr(20))
    y = torch.zeros(4, dtype=torch.int32)
    first[(1,)](y, BLOCK=4)
    assert y.tolist() == [30, 31, 32, 33]
    second[(1,)](y, BLOCK=4)
    assert y.tolist() == [60, 61, 62, 63]


@triton.jit
def fails_here(y):
    value = tl.load(y)
    tl.store(y, value + undefined_name)  # noqa: F821


def test_an_error_names_the_kernels_own_line() -> None:
    with pytest.raises(InterpreterError, match="undefined_name") as caught:
        fails_here[(1,)](torch.zeros(1))
    entries = []
    traceback = caught.value.__cause__.__traceback__ if caught.value.__cause__ else None
    while traceback is not None:
        entries.append((traceback.tb_frame.f_code.co_filename, traceback.tb_lineno))
        traceback = traceback.tb_next
    line = fails_here.fn.__code__.co_firstlineno + 3
    assert (__file__, line) in entries


def test_a_kernels_module_is_not_littered() -> None:
    before = set(globals())
    y = torch.zeros(1, dtype=torch.int64)
    loops[(1,)](y, 2, FORM="range")
    assert set(globals()) == before


@triton.jit
def methods(x, y, R: tl.constexpr, C: tl.constexpr):
    rows = tl.arange(0, R)
    value = tl.load(x + rows[:, None] * C + tl.arange(0, C)[None, :])
    tl.store(y + rows, value.sum(1) + value.max(axis=1) + value.T.sum(0) + value.sigmoid().sum(1))


def test_methods_of_blocks() -> None:
    x, y = torch.randn(4, 8), torch.zeros(4)
    methods[(1,)](x, y, R=4, C=8)
    torch.testing.assert_close(y, 2 * x.sum(1) + x.max(1).values + x.sigmoid().sum(1))
