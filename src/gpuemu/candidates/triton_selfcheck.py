# mypy: disable-error-code="no-untyped-def, untyped-decorator, attr-defined"
"""Tiny kernels with known answers: what `gpuemu doctor` asks of the interpreter on this machine.

Each check is a fault that some Triton version's own interpreter shows; `find_faults` names those that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def _multiply_add(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    value = tl.load(x + i)
    tl.store(y + i, value * value + value)


@triton.jit
def _cast(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i).to(y.dtype.element_ty))


@triton.jit
def _sum(x, y, BLOCK: tl.constexpr):
    tl.store(y, tl.sum(tl.load(x + tl.arange(0, BLOCK)), axis=0))


@triton.jit
def _count_larger(x, y, BLOCK: tl.constexpr):
    value = tl.load(x + tl.arange(0, BLOCK))
    tl.store(y, tl.sum((value > 1.0).to(tl.float32), axis=0))


@triton.jit
def _argmax(x, y, BLOCK: tl.constexpr):
    tl.store(y, tl.argmax(tl.load(x + tl.arange(0, BLOCK)), axis=0))


@triton.jit
def _scalars(y, eps, n, flag):
    large = n.to(tl.int64) * 65536
    tl.store(y, eps.to(tl.float32) + large.to(tl.float32) + flag.to(tl.float32))


@triton.jit
def _mask(x, y, low, high, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i), mask=(i >= low) and (i < high))


@triton.jit
def _wrap(y, n):
    for i in range(n - 1, n):
        tl.store(y, (i * 1000000000).to(tl.int64))


@triton.jit
def _dot(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    block = tl.load(x + i[:, None] * BLOCK + i[None, :])
    tl.store(y + i[:, None] * BLOCK + i[None, :], tl.dot(block, block, input_precision="ieee"))


@triton.jit
def _atomic(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_add(y + i * 0, tl.load(x + i))


@triton.jit
def _library(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, libdevice.tanh(tl.load(x + i)))


def _bfloat16(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.bfloat16)


def _is(got: torch.Tensor, *expected: float) -> bool:
    return got.double().flatten().tolist() == list(expected)


def _check_arithmetic() -> bool:
    y = torch.zeros(4, dtype=torch.bfloat16)
    _multiply_add[(1,)](_bfloat16(0.5, 2.0, -3.0, 256.0), y, BLOCK=4)
    return _is(y, 0.75, 6.0, 6.0, 65792.0 - 256.0)  # 65792 = 2**16 + 2**8 is a tie: to even, 2**16


def _check_rounding() -> bool:
    y = torch.zeros(4, dtype=torch.bfloat16)
    _cast[(1,)](torch.tensor([1 + 2.0**-8, 1 + 3 * 2.0**-8, 3.4e38, float("nan")]), y, BLOCK=4)
    return _is(y[:3], 1.0, 1 + 2.0**-6, float("inf")) and bool(torch.isnan(y[3]))


def _check_float8() -> bool:
    y = torch.zeros(4, dtype=torch.float8_e4m3fn)
    _cast[(1,)](torch.tensor([17 + 2.0**-10, 17.0, 1e4, -1e4]), y, BLOCK=4)
    return _is(y.float(), 18.0, 16.0, 448.0, -448.0)


def _check_sum() -> bool:
    y = torch.zeros(1, dtype=torch.bfloat16)
    _sum[(1,)](torch.full((64,), 0.5, dtype=torch.bfloat16), y, BLOCK=64)
    return _is(y, 32.0)


def _check_comparison() -> bool:
    y = torch.zeros(1)
    _count_larger[(1,)](_bfloat16(0.5, 2.0, 3.0, float("nan")), y, BLOCK=4)
    return _is(y, 2.0)


def _check_argmax() -> bool:
    y = torch.full((1,), -1, dtype=torch.int32)
    _argmax[(1,)](torch.full((4,), float("nan")), y, BLOCK=4)
    return 0 <= int(y) < 4


def _check_scalars() -> bool:
    y = torch.zeros(1)
    _scalars[(1,)](y, 0.5, 2, True)
    return _is(y, 131073.5)


def _check_masks() -> bool:
    y = torch.full((8,), -1.0)
    _mask[(1,)](torch.arange(8.0), y, 2, 4, BLOCK=8)
    return _is(y, -1, -1, 2, 3, -1, -1, -1, -1)


def _check_loops() -> bool:
    y = torch.zeros(1, dtype=torch.int64)
    _wrap[(1,)](y, 6)
    return int(y) == 5_000_000_000 - 2**32


def _check_dot() -> bool:
    x, y = torch.full((16, 16), 0.5, dtype=torch.bfloat16), torch.zeros(16, 16)
    _dot[(1,)](x, y, BLOCK=16)
    return _is(y, *[4.0] * 256)


def _check_atomics() -> bool:
    y = torch.zeros(1, dtype=torch.bfloat16)
    _atomic[(1,)](_bfloat16(0.5, 0.5, 1.0, 2.0), y, BLOCK=4)
    return _is(y, 4.0)


def _check_library() -> bool:
    y = torch.zeros(2)
    _library[(1,)](torch.tensor([0.0, 1.0]), y, BLOCK=2)
    return torch.equal(y, torch.tanh(torch.tensor([0.0, 1.0], dtype=torch.float64)).float())


CHECKS: Sequence[tuple[str, Callable[[], bool]]] = (
    ("bfloat16 arithmetic", _check_arithmetic),
    ("rounding of float32 to bfloat16", _check_rounding),
    ("rounding of float32 to fp8", _check_float8),
    ("sums of bfloat16", _check_sum),
    ("comparisons of bfloat16", _check_comparison),
    ("argmax of a row of NaN", _check_argmax),
    ("types of scalar arguments", _check_scalars),
    ("`and` between masks", _check_masks),
    ("32-bit loop variables", _check_loops),
    ("dot of bfloat16", _check_dot),
    ("atomic add of bfloat16", _check_atomics),
    ("libdevice functions", _check_library),
)


def find_faults(checks: Sequence[tuple[str, Callable[[], bool]]] = CHECKS) -> tuple[str, ...]:
    """Names of the checks that fail, with the exception where one was raised."""
    faults = []
    for name, check in checks:
        try:
            if not check():
                faults.append(f"{name}: wrong result")
        except Exception as error:  # a check may fail in any way; doctor reports it in a line
            faults.append(f"{name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    return tuple(faults)
