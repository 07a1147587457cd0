"""Every arithmetic, cast and comparison of `triton.language` on bfloat16, over all bit patterns.

The truth is exact arithmetic rounded once to bfloat16. float64 holds the exact product, and a sum or quotient
to so many bits that rounding it again to 8 bits cannot differ (S. A. Figueroa, "When is double rounding
innocuous?", ACM SIGNUM 30(3), 1995: 53 >= 2*8 + 2); the rounding itself is a search in the table of all
bfloat16 values, which shares nothing with the code under test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
import triton_kernels as kernels
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from triton.runtime.errors import InterpreterError
from triton.tools.tensor_descriptor import TensorDescriptor
from watched_kernels import last_rows

from gpuemu.candidates import triton_interpreter

pytestmark = [
    pytest.mark.usefixtures("interpreted"),
    pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning"),
]

ALL = 65536
_PATTERNS = np.arange(ALL, dtype=np.uint16)
_MAGNITUDES = (np.arange(0x7F80, dtype=np.uint32) << 16).view(np.float32).astype(np.float64)
# 2**128 stands for infinity: its pattern is even, so a tie with the largest finite value goes there.
_TABLE = np.concatenate([_MAGNITUDES, [2.0**128]])
_SPECIAL = np.array(
    [
        *(0x0000, 0x8000, 0x0001, 0x8001, 0x007F, 0x0080, 0x3F80, 0xBF80, 0x3F00, 0x3F7F, 0x4000),
        *(0x42FE, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0, 0xFFC0, 0x7F81, 0x1900, 0x0100, 0x6000),
    ],
    np.uint16,
)


def round_to_bfloat16(exact: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Nearest bfloat16 of float64 values, ties to the even pattern, as float64."""
    magnitude = np.minimum(np.abs(np.nan_to_num(exact, posinf=np.inf)), 2.0**128)
    upper = np.searchsorted(_TABLE, magnitude)
    lower = np.maximum(upper - 1, 0)
    middle = (_TABLE[lower] + _TABLE[upper]) / 2
    up = (magnitude > middle) | ((magnitude == middle) & (upper % 2 == 0)) | (magnitude == _TABLE[upper])
    value = np.where(up, _TABLE[upper], _TABLE[lower])
    value = np.where(value == 2.0**128, np.inf, value)
    return np.where(np.isnan(exact), np.nan, np.copysign(value, exact))


def tensor(patterns: np.ndarray[Any, Any]) -> torch.Tensor:
    return torch.from_numpy(patterns.view(np.int16).copy()).view(torch.bfloat16)


def values(x: torch.Tensor) -> np.ndarray[Any, Any]:
    return x.to(torch.float64).numpy()


def same(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> bool:
    """Equal values, NaN for NaN, and equal signs of zero."""
    return bool(np.array_equal(x, y, equal_nan=True)) and bool(
        np.all((np.signbit(x) == np.signbit(y)) | np.isnan(x) | (x != 0))
    )


def apply_unary(op: str, x: torch.Tensor) -> torch.Tensor:
    y = torch.full_like(x, float("nan"))
    kernels.unary[(1,)](x, y, OP=op, BLOCK=x.numel())
    return y


def apply_binary(
    op: str, x: torch.Tensor, y: torch.Tensor, dtype: torch.dtype = torch.bfloat16
) -> torch.Tensor:
    out = torch.zeros(x.numel(), dtype=dtype)
    kernels.binary[(1,)](x, y, out, OP=op, BLOCK=x.numel())
    return out


_UNARY: dict[str, Callable[[Any], Any]] = {
    "abs": np.abs,
    "copy": lambda v: v,
    "square": lambda v: v * v,
    "add_one": lambda v: v + 1.0,
    "half": lambda v: v * 0.5,
    "where": lambda v: np.where(v > 0, v, 0.0),
    "full": lambda v: np.full_like(v, float(np.float32(0.1))),
    "zeros": np.zeros_like,
}


@pytest.mark.parametrize("op", sorted(_UNARY))
def test_unary_over_all_patterns(op: str) -> None:
    x = tensor(_PATTERNS)
    assert same(values(apply_unary(op, x)), round_to_bfloat16(_UNARY[op](values(x))))


def test_negation_over_all_patterns() -> None:
    x = tensor(_PATTERNS)
    # Triton 3.6 compiles -x as 0 - x, which gives +0 for +0; later versions negate.
    assert np.array_equal(values(apply_unary("neg", x)), -values(x), equal_nan=True)


def test_clamp_over_all_patterns() -> None:
    x = tensor(_PATTERNS)
    expected = np.fmin(np.fmax(values(x), -1.5), 2.5)
    assert np.array_equal(values(apply_unary("clamp", x)), expected)


def _exact(op: str, x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    functions: dict[str, Callable[[Any, Any], Any]] = {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "minimum": np.fmin,
        "maximum": np.fmax,
        "maximum_nan": np.maximum,
        "select": lambda a, b: np.where(a < b, a, b),
        # Triton divides in float32, then the kernel rounds.
        "div": lambda a, b: (a.astype(np.float32) / b.astype(np.float32)).astype(np.float64),
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
        "eq": np.equal,
        "ne": np.not_equal,
    }
    return np.asarray(functions[op](x, y))


ARITHMETIC = ["add", "sub", "mul", "div", "minimum", "maximum", "maximum_nan", "select"]
COMPARISONS = ["lt", "le", "gt", "ge", "eq", "ne"]


@pytest.mark.parametrize("op", ARITHMETIC)
def test_arithmetic_on_all_pairs_of_special_values(op: str) -> None:
    size = 512
    left, right = (m.ravel()[:484] for m in np.meshgrid(_SPECIAL, _SPECIAL))
    x, y = (tensor(np.concatenate([side, np.zeros(size - 484, np.uint16)])) for side in (left, right))
    got, expected = values(apply_binary(op, x, y)), round_to_bfloat16(_exact(op, values(x), values(y)))
    assert np.array_equal(got, expected, equal_nan=True)


@pytest.mark.parametrize("op", ARITHMETIC)
def test_arithmetic_of_all_patterns_with_shuffled_partners(op: str) -> None:
    partners = np.random.default_rng(7).permutation(_PATTERNS)
    x, y = tensor(_PATTERNS), tensor(partners)
    got, expected = values(apply_binary(op, x, y)), round_to_bfloat16(_exact(op, values(x), values(y)))
    assert np.array_equal(got, expected, equal_nan=True)


_blocks = arrays(np.uint16, 64)


@pytest.mark.parametrize("op", ["add", "mul", "div"])
def test_arithmetic_is_correctly_rounded(op: str) -> None:
    @given(_blocks, _blocks)
    @settings(max_examples=25, deadline=None)
    def check(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> None:
        x, y = tensor(left), tensor(right)
        got, expected = values(apply_binary(op, x, y)), round_to_bfloat16(_exact(op, values(x), values(y)))
        assert np.array_equal(got, expected, equal_nan=True)

    check()


@pytest.mark.parametrize("op", COMPARISONS)
def test_comparison_of_all_patterns(op: str) -> None:
    x, y = tensor(_PATTERNS), tensor(np.random.default_rng(3).permutation(_PATTERNS))
    assert np.array_equal(
        apply_binary(op, x, y, torch.bool).numpy(), _exact(op, values(x), values(y)).astype(np.bool_)
    )


def test_a_comparison_is_a_boolean_and_casts_as_one() -> None:
    x, y = tensor(_PATTERNS), tensor(_PATTERNS[::-1].copy())
    got = apply_binary("lt_as_float", x, y, torch.float32).numpy()
    assert np.array_equal(got, (values(x) < values(y)).astype(np.float32))


def test_fma_rounds_once() -> None:
    x = torch.tensor([1.0625, 1.0625, 2.0, float("nan")], dtype=torch.bfloat16)
    z = torch.tensor([2.0**-100, -(2.0**-100), 1.0, 1.0], dtype=torch.bfloat16)
    out = torch.empty_like(x)
    kernels.fused[(1,)](x, x, z, out, BLOCK=4)
    assert np.array_equal(values(out), [1.1328125, 1.125, 5.0, np.nan], equal_nan=True)


def _float32_samples() -> torch.Tensor:
    """Every bfloat16 and, as float32, its midpoint to the next and that midpoint's two neighbours."""
    high = _PATTERNS.astype(np.uint32) << 16
    patterns = np.concatenate([high, high + 0x8000, high + 0x7FFF, high + 0x8001])
    return torch.from_numpy(patterns.view(np.int32)).view(torch.float32)


@pytest.mark.parametrize("kernel", [kernels.cast, kernels.implicit_store], ids=["to", "store"])
def test_float32_to_bfloat16_at_every_midpoint(kernel: Any) -> None:
    x = _float32_samples()
    y = torch.empty(x.numel(), dtype=torch.bfloat16)
    kernel[(1,)](x, y, BLOCK=x.numel())
    assert same(values(y), round_to_bfloat16(values(x)))
    assert np.array_equal(  # and the other library agrees, pattern by pattern except for NaN
        np.where(torch.isnan(x).numpy(), 0, y.view(torch.int16).numpy()),
        np.where(torch.isnan(x).numpy(), 0, x.numpy().astype(ml_dtypes.bfloat16).view(np.int16)),
    )


def test_float32_to_bfloat16_toward_zero() -> None:
    x = _float32_samples()
    x = torch.where(torch.isnan(x), 0.0, x)
    y = torch.empty(x.numel(), dtype=torch.bfloat16)
    kernels.cast_toward_zero[(1,)](x, y, BLOCK=x.numel())
    truncated = (x.view(torch.int32) & -65536).view(torch.float32)
    assert torch.equal(y.float(), truncated)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.float32, torch.float64, torch.int8, torch.uint8, torch.int32, torch.int64]
)
def test_bfloat16_to_another_dtype(dtype: torch.dtype) -> None:
    x = tensor(_PATTERNS)
    y = torch.zeros(ALL, dtype=dtype)
    kernels.cast[(1,)](x, y, BLOCK=ALL)
    if dtype.is_floating_point:
        assert np.array_equal(y.double().numpy(), x.to(dtype).double().numpy(), equal_nan=True)
        return
    carrier = torch.iinfo(
        torch.int16 if dtype == torch.int8 else torch.int32 if dtype == torch.uint8 else dtype
    )
    inside = x.float().abs() < carrier.max if dtype != torch.uint8 else (x.float() >= 0) & (x.float() < 65536)
    expected = x[inside].to(torch.int64).to(dtype)
    assert torch.equal(y[inside], expected)
    assert dtype == torch.int64 or y[torch.isnan(x)].eq(0).all()


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float64, torch.float16])
def test_another_dtype_to_bfloat16(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(5)
    if dtype.is_floating_point:
        x = torch.randn(4096, generator=generator, dtype=torch.float64).mul_(100).to(dtype)
    else:
        shifts = torch.randint(0, 31 if dtype == torch.int32 else 40, (4096,), generator=generator)
        x = (torch.randint(-(2**31) + 1, 2**31 - 1, (4096,), generator=generator) >> shifts).to(dtype)
    y = torch.empty(4096, dtype=torch.bfloat16)
    kernels.cast[(1,)](x, y, BLOCK=4096)
    assert same(values(y), round_to_bfloat16(x.double().numpy()))


def test_bitcast_keeps_the_pattern() -> None:
    x = tensor(_PATTERNS)
    y = torch.zeros(ALL, dtype=torch.int16)
    kernels.bitcast[(1,)](x, y, BLOCK=ALL)
    assert torch.equal(y, x.view(torch.int16))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("source", [torch.float32, torch.bfloat16, torch.float16])
def test_casts_to_fp8_round_to_nearest_even_and_saturate(dtype: torch.dtype, source: torch.dtype) -> None:
    x = _float32_samples()[::8].contiguous().to(source)
    y = torch.empty(x.numel(), dtype=dtype)
    kernels.cast[(1,)](x, y, BLOCK=x.numel())
    largest = torch.finfo(dtype).max
    expected = x.float().clamp(-largest, largest).to(dtype)
    assert torch.equal(torch.nan_to_num(y.float(), 7.0), torch.nan_to_num(expected.float(), 7.0))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("target", [torch.float32, torch.bfloat16, torch.float16])
def test_casts_from_fp8_are_exact(dtype: torch.dtype, target: torch.dtype) -> None:
    x = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(dtype)
    y = torch.empty(256, dtype=target)
    kernels.cast[(1,)](x, y, BLOCK=256)
    assert np.array_equal(y.float().numpy(), x.float().numpy(), equal_nan=True)


def test_comparisons_of_fp8_are_booleans() -> None:
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    x, y = codes.view(torch.float8_e5m2), codes.flip(0).contiguous().view(torch.float8_e5m2)
    for left, right in ((x, x), (x, y)):
        got = apply_binary("equal_and_ordered", left, right, torch.bool)
        assert torch.equal(got, left.float() == right.float())


def test_arithmetic_on_fp8_is_refused_as_by_the_compiler() -> None:
    x = torch.zeros(16, dtype=torch.float8_e5m2)
    with pytest.raises(InterpreterError, match="fp8e5 has no arithmetic"):
        kernels.unary[(1,)](x, torch.empty_like(x), OP="square", BLOCK=16)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_dot_accumulates_in_float32(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    # Integers of at most 8 bits: every product and partial sum is exact in float32, so the order is free.
    a = torch.randint(-128, 129, (16, 64), generator=generator).to(dtype)
    b = torch.randint(-128, 129, (64, 32), generator=generator).to(dtype)
    c = torch.empty(16, 32)
    kernels.dot[(1,)](a, b, c, 16, 32, 64)
    assert torch.equal(c.double(), a.double() @ b.double())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_atomic_add_accumulates_lane_after_lane(dtype: torch.dtype) -> None:
    x = torch.tensor([0.5, 0.25, 256.0, 1.0, 1.0, 3.0, float("nan"), 7.0]).to(dtype)
    targets = torch.tensor([0, 0, 1, 1, 1, 2, 3, 2], dtype=torch.int32)
    y = torch.zeros(4, dtype=dtype)
    old = torch.full((8,), -1.0, dtype=dtype)
    kernels.atomic[(1,)](x, targets, y, old, 7, OP="add", BLOCK=8)
    # 256 + 1 = 257 is a tie in bfloat16 and rounds to 256, twice.
    second = 256.0 if dtype == torch.bfloat16 else 258.0
    assert torch.equal(torch.nan_to_num(y, 9.0), torch.tensor([0.75, second, 3.0, 9.0]).to(dtype))
    assert old[:4].tolist() == [0.0, 0.5, 0.0, 256.0]
    assert old[7] == -1.0  # masked lane: neither added nor stored


def test_masked_lanes_read_zero_or_what_the_seam_says() -> None:
    x = torch.arange(8, dtype=torch.bfloat16)
    y = torch.zeros(8, dtype=torch.bfloat16)
    kernels.masked_copy[(1,)](x, y, 5, WITH_OTHER=False, BLOCK=8)
    assert y.tolist() == [0, 1, 2, 3, 4, 0, 0, 0]
    with triton_interpreter.masked_lane_fill(lambda dtype, shape: np.full(shape, np.nan, dtype)):
        kernels.masked_copy[(1,)](x, y, 5, WITH_OTHER=False, BLOCK=8)
        assert torch.isnan(y[5:]).all() and y[:5].tolist() == [0, 1, 2, 3, 4]
        kernels.masked_copy[(1,)](x, y, 5, WITH_OTHER=True, BLOCK=8)
        assert y.tolist() == [0, 1, 2, 3, 4, 0, 0, 0]
        # One element and a fill of 0: Triton's `if other` would take the fill for missing.
        kernels.masked_copy[(1,)](x, y, 0, WITH_OTHER=True, BLOCK=1)
        assert y[0] == 0
    kernels.masked_copy[(1,)](x, y, 5, WITH_OTHER=False, BLOCK=8)
    assert not torch.isnan(y).any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_descriptors_load_and_store(dtype: torch.dtype) -> None:
    x, y = torch.arange(24, dtype=dtype).reshape(3, 8), torch.full((4, 8), 9, dtype=dtype)
    last_rows[(1,)](x, TensorDescriptor.from_tensor(y, [4, 8]), 3, BLOCK=8)
    assert torch.equal(y[:3], x) and y[3].tolist() == [0] * 8  # beyond the descriptor's shape: padding


@given(st.lists(st.integers(0, 65535), min_size=16, max_size=16))
@settings(max_examples=15, deadline=None)
def test_sum_rounds_every_step_like_some_tree(patterns: list[int]) -> None:
    x = tensor(np.array(patterns, np.uint16) & 0x7FFF)
    x = torch.where(torch.isfinite(x), x, torch.ones_like(x)).reshape(1, 16)
    y = torch.empty(1, dtype=torch.bfloat16)
    with triton_interpreter.installed():
        kernels.reduce_rows[(1,)](x, y, OP="sum", R=1, C=16)
    level = values(x)[0]
    while len(level) > 1:
        level = round_to_bfloat16(level[0::2] + level[1::2])
    assert values(y)[0] == level[0]
