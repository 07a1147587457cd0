"""Watching a Triton kernel run: memory that is none of its tensors', masked lanes, launches.

In the interpreter every lane's address is compared with the storages that the launch was given. A lane outside
them is not carried out: a read gives poison, a write is left out, and the finding names the line. (An address
in a storage but outside a view's elements is legal on hardware; poison and red zones see those.) A kernel that
makes pointers of integers may go where only its data says; its launch is then not compared. Masked lanes of a
load without `other` are undefined on a device and get poison too: with 0, a kernel may work by accident.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuemu.candidates.triton_numbers import BFLOAT16, Array
from gpuemu.model.observation import GuardFinding

NAME = "out_of_range"
LARGE = 1e30
MOST_FINDINGS = 4
_TOOLS = ("/triton/", "/gpuemu/candidates/", "/numpy/")
_INTEGERS = {1: 0x55, 2: 0x5555, 4: 0x55555555, 8: 0x5555555555555555}  # large, odd, and no index


@dataclass(frozen=True)
class Extent:
    """Bytes of one argument's storage: first and one past the last."""

    name: str
    start: int
    end: int


@dataclass
class Watch:
    """What was seen during one call of a candidate.

    pattern: of the poison, "nan" or "large". launching: False leaves every launch out. is_checking: addresses
    are compared and masked lanes poisoned. unfilled_loads: places, as file:line, where lanes were masked out of
    a load without `other`.
    """

    pattern: str = "nan"
    launching: bool = True
    is_checking: bool = True
    findings: list[GuardFinding] = field(default_factory=list)
    unfilled_loads: list[str] = field(default_factory=list)
    launches: int = 0
    _extents: tuple[Extent, ...] = ()
    _makes_pointers: bool = False

    def begin_launch(self, arguments: Mapping[str, Any]) -> bool:
        """Note a launch and where its tensors lie; whether it is to be carried out."""
        self.launches += 1
        self._makes_pointers = False
        if self.is_checking:
            self._extents = tuple(_extents(arguments))
        return self.launching

    def note_made_pointer(self) -> None:
        """The kernel made a pointer of an integer: where it may go, its data says."""
        self._makes_pointers = True

    def inside(self, addresses: Array, mask: Array, size: int, verb: str) -> Array:
        """The mask without the lanes that lie outside every storage; those are reported.

        Args:
            addresses: uint64, of the lanes' first bytes. size: bytes of an element. verb: "reads" or "writes".
        """
        if self._makes_pointers or not self.is_checking or not mask.any():
            return mask
        active = addresses[np.broadcast_to(mask, addresses.shape)]
        least, most = int(active.min()), int(active.max()) + size
        if any(extent.start <= least and most <= extent.end for extent in self._extents):
            return mask
        allowed = np.zeros(addresses.shape, np.bool_)
        for extent in self._extents:
            if extent.end - extent.start >= size:
                allowed |= (addresses >= extent.start) & (addresses <= extent.end - size)
        outside = np.broadcast_to(mask, addresses.shape) & ~allowed
        if not outside.any():
            return mask
        self._report(addresses[outside], size, verb)
        return np.asarray(mask & allowed)

    def poison(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """What undefined lanes hold."""
        if dtype == np.bool_:
            return np.full(shape, self.pattern == "nan", dtype)
        if dtype.kind in "iu":
            value = _INTEGERS[dtype.itemsize] - (0 if self.pattern == "nan" else 2)
            return np.full(shape, value, np.int64).astype(dtype)
        if self.pattern == "nan":
            return np.full(shape, math.nan, np.float32).astype(dtype)
        largest = 3e38 if dtype == BFLOAT16 else float(np.finfo(dtype).max) if dtype.kind == "f" else 240.0
        return np.full(shape, min(LARGE, largest), np.float32).astype(dtype)

    def note_unfilled(self) -> None:
        """A load without `other` had lanes masked out."""
        place = find_place()
        if place not in self.unfilled_loads:
            self.unfilled_loads.append(place)

    def _report(self, addresses: Array, size: int, verb: str) -> None:
        place = find_place()
        if len(self.findings) >= MOST_FINDINGS or any(place in finding.message for finding in self.findings):
            return
        first = int(addresses.flat[0])
        where = "in no tensor that it was given"
        if self._extents:
            nearest = min(self._extents, key=lambda e: max(e.start - first, first - e.end, 0))
            if first < nearest.start:
                where = f"the first {-(-(nearest.start - first) // size)} before the start of {nearest.name}"
            else:
                where = f"the first {(first - nearest.end) // size + 1} past the end of {nearest.name}"
        count = addresses.size
        lanes = "1 lane" if count == 1 else f"{count} lanes"
        self.findings.append(GuardFinding(NAME, f"{place} {verb} {lanes} out of range, {where}"))


current: Watch | None = None
"""The watch of the call that is going on, if one is wanted."""


@contextmanager
def watch(pattern: str, launching: bool = True, is_checking: bool = True) -> Iterator[Watch]:
    """Watch the kernels that are interpreted within the block."""
    global current  # noqa: PLW0603 - the interpreter has no place of its own to hand it through
    before, current = current, Watch(pattern, launching, is_checking)
    try:
        yield current
    finally:
        current = before


@contextmanager
def watch_compiled(launching: bool = True) -> Iterator[Watch]:
    """Count the launches of compiled kernels within the block, and leave them out if not `launching`.

    Autotuners and heuristics launch through `JITFunction.run` in the end.
    """
    from triton.runtime.jit import JITFunction

    seen = Watch(launching=launching, is_checking=False)
    run = JITFunction.run

    def counted(self: Any, *arguments: Any, **options: Any) -> Any:
        if options.get("warmup"):
            return run(self, *arguments, **options)
        return run(self, *arguments, **options) if seen.begin_launch({}) else None

    JITFunction.run = counted
    try:
        yield seen
    finally:
        JITFunction.run = run


def find_place() -> str:
    """file:line of the kernel's own innermost frame."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not any(folder in name for folder in _TOOLS):
            return f"{name.rpartition('/')[2]}:{frame.f_lineno}"
        frame = frame.f_back
    return "?"


def _extents(arguments: Mapping[str, Any]) -> Iterator[Extent]:
    for name, value in arguments.items():
        yield from _extents_of(name, value)


def _extents_of(name: str, value: Any) -> Iterator[Extent]:
    if isinstance(value, tuple):
        for number, item in enumerate(value):
            yield from _extents_of(f"{name}[{number}]", item)
        return
    base = getattr(value, "base", None)  # of a tensor descriptor
    if base is not None and hasattr(base, "untyped_storage"):
        value = base
    if hasattr(value, "untyped_storage"):
        storage = value.untyped_storage()
        yield Extent(name, storage.data_ptr(), storage.data_ptr() + storage.nbytes())
