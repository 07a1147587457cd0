"""Reductions and scans against sequential evaluation of their combine functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import triton_kernels as kernels
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu.candidates import triton_interpreter

pytestmark = pytest.mark.usefixtures("interpreted")

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def reduce_rows(op: str, x: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    y = torch.full((x.shape[0],), -77, dtype=dtype or x.dtype)
    kernels.reduce_rows[(1,)](x, y, OP=op, R=x.shape[0], C=x.shape[1])
    return y


def scan_rows(op: str, x: torch.Tensor) -> torch.Tensor:
    y = torch.full_like(x, -77)
    kernels.scan_rows[(1,)](x, y, OP=op, R=x.shape[0], C=x.shape[1])
    return y


def integers(
    dtype: torch.dtype, low: int = -8, high: int = 9, shape: tuple[int, int] = (4, 16)
) -> torch.Tensor:
    """Small integers, whose sums are exact in every dtype here."""
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(2)).to(dtype)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.int32])
@pytest.mark.parametrize("op", ["sum", "sum_negative_axis"])
def test_sum_of_exact_values(op: str, dtype: torch.dtype) -> None:
    x = integers(dtype)
    assert torch.equal(reduce_rows(op, x), x.double().sum(1).to(dtype))


def test_sum_of_bfloat16_is_not_a_sum_of_patterns() -> None:
    # BUGS.md section 4: Triton 3.9's interpreter gives -2.7e36 and -2.0.
    assert reduce_rows("sum", torch.full((1, 4), 0.5, dtype=torch.bfloat16)).item() == 2.0
    assert reduce_rows("sum", torch.full((1, 64), 0.5, dtype=torch.bfloat16)).item() == 32.0


@pytest.mark.parametrize(("dtype", "stays"), [(torch.float16, 2048.0), (torch.bfloat16, 256.0)])
def test_sum_accumulates_in_the_element_dtype(dtype: torch.dtype, stays: float) -> None:
    # `stays` + 1 is a tie that rounds back to `stays`; in float32 the two ones would make a difference.
    x = torch.zeros(1, 8, dtype=dtype)
    x[0, 0], x[0, 2], x[0, 4] = stays, 1.0, 1.0
    assert reduce_rows("sum", x).item() == stays
    assert reduce_rows("sum_all", x).item() == stays


@pytest.mark.parametrize("dtype", DTYPES)
def test_max_and_min_skip_nan_and_keep_an_all_nan_row(dtype: torch.dtype) -> None:
    x = integers(dtype)
    x[0, 3], x[2] = float("nan"), float("nan")
    wide = torch.float32  # Triton promotes 16-bit floats here
    for op, ignore in (("max", -1e9), ("min", 1e9)):
        expected = getattr(torch.nan_to_num(x.float(), ignore), op)(1).values
        expected[2] = float("nan")
        assert np.array_equal(reduce_rows(op, x, wide).numpy(), expected.numpy(), equal_nan=True)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.int32])
def test_arg_reductions_take_the_leftmost_extremum(dtype: torch.dtype) -> None:
    x = integers(dtype, -3, 4)
    assert reduce_rows("argmax", x, torch.int32).tolist() == np.argmax(x.float().numpy(), 1).tolist()
    assert reduce_rows("argmin", x, torch.int32).tolist() == np.argmin(x.float().numpy(), 1).tolist()


def test_arg_reduction_of_an_all_nan_row_gives_an_index() -> None:
    x = torch.full((2, 8), float("nan"))
    x[1] = torch.arange(8.0)
    got = reduce_rows("argmax", x, torch.int32)
    assert 0 <= got[0] < 8 and got[1] == 7


@pytest.mark.parametrize("op", ["keep_larger", "branching"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_kernels_own_combine_function(op: str, dtype: torch.dtype) -> None:
    x = integers(dtype)
    assert torch.equal(reduce_rows(op, x), x.max(1).values)


def compose(row: np.ndarray[Any, Any]) -> list[float]:
    """Running composition of the maps t -> v*t + v, evaluated left to right; the shifts."""
    scale, shift = row[0], row[0]
    shifts = [shift]
    for value in row[1:]:
        scale, shift = scale * value, value * shift + value
        shifts.append(shift)
    return shifts


def test_the_order_of_operands_is_kept() -> None:
    x = torch.tensor([[1.0, 2.0, -1.0, 1.0, -2.0, 1.0, 2.0, -1.0], [2.0, 1.0, 1.0, -1.0, 2.0, -2.0, 1.0, 1.0]])
    expected = [compose(row) for row in x.numpy()]
    assert reduce_rows("affine", x).tolist() == [row[-1] for row in expected]
    assert scan_rows("affine", x).tolist() == expected


@pytest.mark.parametrize("dtype", DTYPES)
def test_scans_of_exact_values(dtype: torch.dtype) -> None:
    x = integers(dtype)
    assert torch.equal(scan_rows("cumsum", x), x.double().cumsum(1).to(dtype))
    assert torch.equal(scan_rows("cumsum_reverse", x), x.double().flip(1).cumsum(1).flip(1).to(dtype))
    signs = integers(dtype, 0, 2) * 2 - 1
    assert torch.equal(scan_rows("cumprod", signs), signs.double().cumprod(1).to(dtype))


@given(st.lists(st.integers(-(2**15), 2**15 - 1), min_size=16, max_size=16))
@settings(max_examples=15, deadline=None)
def test_sort_and_flip_of_bfloat16(patterns: list[int]) -> None:
    x = torch.tensor([patterns], dtype=torch.int16).view(torch.bfloat16)
    x = torch.where(torch.isnan(x), 3.0, x) + 0.0  # +0.0: one sign of zero
    with triton_interpreter.installed():
        assert torch.equal(scan_rows("sort", x), x.sort(1).values)
        assert torch.equal(scan_rows("flip", x), x.flip(1))


def test_an_axis_out_of_bounds_is_refused() -> None:
    from gpuemu.candidates import triton_reduction
    from gpuemu.candidates.triton_builder import SEMANTIC

    block = triton_reduction.to_tensor(np.zeros((2, 4), np.float32), SEMANTIC.to_tensor(1.0).dtype)
    with pytest.raises(ValueError, match="axis 2 is out of bounds for a block of 2 dimensions"):
        triton_reduction.reduce(block, 2, None, False, lambda *a: None)
    with pytest.raises(ValueError, match="a scan needs an axis"):
        triton_reduction.scan(block, None, None, False, lambda *a: None)
