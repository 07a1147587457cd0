"""Ranges of addresses, and what is known of this process's memory."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

import numpy as np
import pytest
import torch
import triton.language as tl

from gpuemu.candidates import triton_guard, triton_known_memory
from gpuemu.candidates.triton_known_memory import Ranges, find_mapped_memory, find_tensor_memory, get_storage
from gpuemu.candidates.triton_types import Handle

NOWHERE = 8  # no process has memory there


def addresses(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def test_ranges_that_overlap_become_one_and_empty_ones_none() -> None:
    assert list(Ranges([(20, 30), (0, 10), (5, 12), (12, 14), (40, 40)])) == [(0, 12), (12, 14), (20, 30)]


def test_an_element_must_lie_in_one_range_whole() -> None:
    ranges = Ranges([(16, 32), (32, 40), (64, 65)])
    places = addresses(12, 16, 28, 30, 36, 38, 40, 64, 2**64 - 4)
    assert ranges.is_beyond(places, 4).tolist() == [True, False, False, True, False, True, True, True, True]
    assert ranges.is_beyond(addresses(64), 1).tolist() == [False]
    assert Ranges([]).is_beyond(places, 1).all()


def test_one_range_covers_all_addresses_or_none_does() -> None:
    ranges = Ranges([(16, 32), (40, 48)])
    assert ranges.covers(addresses(28, 16), 4) and ranges.covers(addresses(44), 4)
    for outside in ((12, 16), (29,), (16, 44), (8,)):
        assert not ranges.covers(addresses(*outside), 4)
    assert not Ranges([]).covers(addresses(8), 1)


def test_the_ranges_of_addresses() -> None:
    ranges = Ranges([(16, 32), (40, 48)])
    assert ranges.holding(addresses(17, 18, 33)) == {(16, 32)}
    assert ranges.holding(addresses(48)) == set()


def test_live_tensors_are_found_and_dead_ones_are_not() -> None:
    tensor = torch.zeros(1000)
    view = tensor[500:]
    region = tensor.data_ptr(), tensor.data_ptr() + 4000
    assert get_storage(view) == region and get_storage(np.zeros(2)) is None
    first = addresses(region[0])
    del tensor
    assert find_tensor_memory().holding(first) == {region}
    del view
    gc.collect()
    assert not find_tensor_memory().covers(first, 4000)


def test_mapped_memory_is_told_apart_by_what_it_allows() -> None:
    data = addresses(torch.zeros(4).data_ptr())
    code = addresses(ctypes.cast(ctypes.pythonapi.Py_GetVersion, ctypes.c_void_p).value or 0)
    readable, writable = find_mapped_memory(), find_mapped_memory(writable=True)
    assert readable is not None and writable is not None
    assert readable.covers(data, 4) and readable.covers(code, 1)
    assert writable.covers(data, 4) and not writable.covers(code, 1)
    assert not readable.covers(addresses(NOWHERE), 1)


def test_a_system_that_does_not_say_what_is_mapped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(triton_known_memory, "_MAPS", tmp_path / "none")
    assert find_mapped_memory() is None
    guard = make_guard()
    guard.adopt(pointer(NOWHERE))
    assert guard.is_open


def make_guard() -> triton_guard.LaunchGuard:
    return triton_guard.LaunchGuard(triton_guard.AccessLog("nan"), "kernel", [])


def pointer(*values: int) -> Handle:
    return Handle(addresses(*values), tl.pointer_type(tl.float32))


def test_only_memory_without_an_owner_opens_a_launch() -> None:
    tensor, array = torch.zeros(4), np.zeros(4, np.float32)
    guard = make_guard()
    guard.adopt(pointer(NOWHERE, 0, tensor.data_ptr()))
    assert not guard.is_open
    guard.adopt(pointer(array.ctypes.data))
    assert guard.is_open
