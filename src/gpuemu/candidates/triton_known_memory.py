"""Ranges of addresses: those that a launch may touch, those that live tensors own, those that are mapped."""

from __future__ import annotations

import gc
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch

from gpuemu.candidates.triton_numbers import Array

_MAPS = Path("/proc/self/maps")

Region = tuple[int, int]  # first address and the address after the last


class Ranges:
    """Disjoint ranges of addresses; ranges that overlap become one, ranges that only touch do not."""

    def __init__(self, ranges: Iterable[Region]) -> None:
        merged: list[list[int]] = []
        for start, end in sorted(ranges):
            if start >= end:
                continue
            if merged and start < merged[-1][1]:
                merged[-1][1] = max(end, merged[-1][1])
            else:
                merged.append([start, end])
        self.starts = [start for start, _ in merged]
        self.ends = [end for _, end in merged]

    def __iter__(self) -> Iterator[Region]:
        return zip(self.starts, self.ends, strict=True)

    def covers(self, addresses: Array, itemsize: int) -> bool:
        """Whether one range holds everything between the lowest and the highest address."""
        index = bisect_right(self.starts, int(addresses.min())) - 1
        return index >= 0 and int(addresses.max()) + itemsize <= self.ends[index]

    def is_beyond(self, addresses: Array, itemsize: int) -> Array:
        """For each address, whether no range holds an element of this size there."""
        if not self.starts:
            return np.ones(addresses.shape, np.bool_)
        index = np.searchsorted(np.array(self.starts, np.uint64), addresses, side="right") - 1
        ends = np.array(self.ends, np.uint64)[index]
        return (index < 0) | (addresses >= ends) | (ends - addresses < np.uint64(itemsize))

    def holding(self, addresses: Array) -> set[Region]:
        """The ranges that hold one of these addresses."""
        found = {
            bisect_right(self.starts, int(address)) - 1 for address in addresses[~self.is_beyond(addresses, 1)]
        }
        return {(self.starts[index], self.ends[index]) for index in found}


def find_tensor_memory() -> Ranges:
    """The storages of every tensor that is alive in this process and lies on the CPU."""
    found = []
    with torch._C.DisableTorchFunction():
        for item in gc.get_objects():
            # `isinstance` would ask proxies what they stand for.
            if issubclass(type(item), torch.Tensor) and item.device.type == "cpu":
                region = get_storage(item)
                if region is not None:
                    found.append(region)
    return Ranges(found)


def get_storage(tensor: object) -> Region | None:
    """Where a tensor's storage lies; None if it has none."""
    try:
        storage = tensor.untyped_storage()  # type: ignore[attr-defined]
        start = storage.data_ptr()
    except (AttributeError, NotImplementedError, RuntimeError):
        return None
    return start, start + storage.nbytes()


def find_mapped_memory(writable: bool = False) -> Ranges | None:
    """Addresses that this process may read, or write, without a fault; None if the system does not say."""
    try:
        lines = _MAPS.read_text(errors="replace").splitlines()
    except OSError:
        return None
    found: list[list[int]] = []
    for line in lines:
        addresses, allowed = line.split(maxsplit=2)[:2]
        if "w" in allowed if writable else "r" in allowed:
            start, end = (int(address, 16) for address in addresses.split("-"))
            if found and found[-1][1] == start:
                found[-1][1] = end
            else:
                found.append([start, end])
    return Ranges((start, end) for start, end in found)
