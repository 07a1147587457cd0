"""Poison: memory that nobody wrote shows, and so does a write past a buffer."""

from __future__ import annotations

import ctypes

import pytest
import torch

from gpuemu.run.guards import poison
from gpuemu.run.guards.poison import Poison


def test_what_is_not_written_is_nan_then_large() -> None:
    for pattern, shows in (("nan", torch.isnan), ("large", lambda x: x == 1e30)):
        with Poison(pattern) as laid:
            made = torch.empty(2, 3), torch.empty_like(torch.ones(4)), torch.ones(2).new_empty(5)
            strided = torch.empty_strided((2, 3), (1, 2))
        assert all(bool(shows(one).all()) for one in (*made, strided))
        assert strided.stride() == (1, 2)
        assert laid.findings() == []


def test_what_is_made_with_values_is_left_alone() -> None:
    with Poison("nan"):
        made = torch.zeros(3), torch.ones(3), torch.full((2,), 7.0), torch.arange(3.0), torch.tensor([1.0]) + 1
        out = torch.empty(3)
        torch.add(torch.ones(3), 1, out=out)
    assert [one.tolist() for one in made] == [[0.0] * 3, [1.0] * 3, [7.0] * 2, [0.0, 1.0, 2.0], [2.0]]
    assert out.tolist() == [2.0] * 3


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.int64, torch.bool, torch.complex64]
)
def test_every_dtype_has_a_poison(dtype: torch.dtype) -> None:
    patterns = []
    for pattern in ("nan", "large"):
        with Poison(pattern):
            patterns.append(torch.empty(4, dtype=dtype).view(torch.uint8).tolist())
    assert patterns[0] != patterns[1]


def test_a_buffer_is_the_whole_of_its_storage_and_aligned() -> None:
    with Poison("nan"):
        one = torch.empty(5, dtype=torch.float16)
    assert (one.storage_offset(), one.untyped_storage().nbytes()) == (0, 10)


@pytest.mark.parametrize(("offset", "says"), [(10, "2 bytes past the end of"), (-2, "2 bytes before")])
def test_a_write_outside_a_buffer_is_placed(offset: int, says: str) -> None:
    with Poison("nan") as laid:
        one = torch.empty(5, dtype=torch.float16)
        ctypes.memset(one.data_ptr() + offset, 1, 2)
    [finding] = laid.findings()
    assert finding.message.startswith(f"wrote {says} a (5,) float16 buffer allocated at test_poison.py:")


def call(*numbers: float) -> tuple[torch.Tensor, ...]:
    return (torch.tensor(numbers),)


A, B, C = call(1.0, 2.0), call(1.0, 3.0), call(1.0, 4.0)


def test_outputs_that_follow_the_pattern_are_told_from_those_that_differ_anyway() -> None:
    finding = poison.judge([("nan", A), ("large", B), ("large", B), ("nan", A)])
    assert finding is not None
    assert finding.message.startswith("1 of 2 output elements")
    assert poison.judge([("nan", A), ("large", A), ("large", A), ("nan", A)]) is None
    assert poison.judge([("nan", A), ("large", B), ("large", A), ("nan", B)]) is None  # in every other call
    assert poison.judge([("nan", A), ("large", B), ("large", C), ("nan", A)]) is None
    assert poison.judge([("nan", A), ("large", B)]) is None  # nothing to tell by
