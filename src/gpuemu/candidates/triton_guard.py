"""Which addresses an interpreted launch may touch, what it touched beyond them, and what undefined lanes hold.

An access is judged against the storages of all tensors that the launch was given, not against the tensor that
its pointer came from: fused kernels take one view and reach its siblings by offsets that the host computed.

Addresses that do not come from a tensor argument cannot be judged: a pointer made from an integer or loaded
from a table of pointers may rightly name memory that only the host knows. From the first such pointer of a
launch on, and for the whole of a launch given an integer as a pointer or an object without a storage, accesses
beyond every argument are carried out unreported, as without a guard.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import ml_dtypes
import numpy as np
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from gpuemu.candidates.triton_numbers import FLOAT8, Array
from gpuemu.candidates.triton_types import get_numpy_dtype
from gpuemu.model.observation import GuardFinding

GUARD = "out_of_range"
MOST_FINDINGS = 3
PATTERNS = ("nan", "large")
# Odd, far from any size or index, and no sum of a few powers of two; the sign bit is added for "large".
_ODD = {1: 0x5B, 2: 0x5BA5, 4: 0x5BA5_C3B7, 8: 0x5BA5_C3B7_9D63_E1AF}
_INNER = tuple(f"{folder}/" for folder in (Path(triton.__file__).parent, Path(__file__).parent))

Region = tuple[int, int]  # first address and the address after the last


@dataclass(frozen=True)
class Argument:
    """Memory that a launch may touch: [start, end) in bytes, by the name of the parameter that brought it."""

    name: str
    start: int
    end: int


class ArgumentPointer(tl.pointer_type):  # type: ignore[misc]
    """A pointer type that remembers its argument; the interpreter hands types on through address arithmetic."""

    def __init__(self, plain: Any, argument: Argument) -> None:
        super().__init__(plain.element_ty, plain.address_space, plain.const)
        self.argument = argument

    def point_to(self, element: Any) -> ArgumentPointer:
        """The same origin, read as another element type."""
        return ArgumentPointer(tl.pointer_type(element, self.address_space, self.const), self.argument)


@cache
def _poison_value(dtype: np.dtype[Any], pattern: str) -> Any:
    if dtype == np.bool_:
        return np.bool_(True)
    if dtype.kind in "iu":
        sign = 1 << (8 * dtype.itemsize - 1) if pattern == "large" else 0
        return np.array(_ODD[dtype.itemsize] | sign, f"u{dtype.itemsize}").astype(dtype)[()]
    value = np.nan if pattern == "nan" else min(1e30, float(ml_dtypes.finfo(dtype).max))  # type: ignore[no-untyped-call]
    return np.array(value).astype(dtype)[()]


def make_poison(element: Any, shape: tuple[int, ...], pattern: str) -> Array:
    """An array of what a lane of this Triton type holds when its value is undefined."""
    dtype = get_numpy_dtype(element)
    if element.is_fp8():
        form = FLOAT8[element.name]
        return np.full(shape, form.nan_code if pattern == "nan" else form.largest_code, dtype)
    if element.is_ptr():
        return np.zeros(shape, dtype)
    return np.full(shape, _poison_value(dtype, pattern), dtype)


def kernel_frame() -> FrameType | None:
    """The innermost frame of the kernel that runs: the first outside Triton and this folder."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_INNER):
        frame = frame.f_back
    return frame


def kernel_line() -> str:
    """Where the kernel that runs is, as "softmax.py:24"."""
    frame = kernel_frame()
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else "?"


@dataclass
class _Line:
    """What one line of a kernel did out of range, over all programs of all launches of a call."""

    kernel: str
    argument: Argument
    program: tuple[int, int, int]  # the first
    lanes: int = 0
    accesses: int = 0
    before: list[int] = field(default_factory=lambda: [0, 0])  # nearest and farthest, elements; 0: none
    after: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, addresses: Array, argument: Argument, itemsize: int) -> None:
        self.lanes += addresses.size
        self.accesses += 1
        below = addresses < np.uint64(argument.start)
        if below.any():
            nearest, farthest = int(addresses[below].max()), int(addresses[below].min())
            _widen(self.before, [-(-(argument.start - a) // itemsize) for a in (nearest, farthest)])
        if not below.all():
            nearest, farthest = int(addresses[~below].min()), int(addresses[~below].max())
            _widen(self.after, [max(0, a - argument.end) // itemsize + 1 for a in (nearest, farthest)])

    def describe(self) -> str:
        name = self.argument.name
        if self.argument.start == self.argument.end:
            return f"of {name}, which is empty"
        parts = [
            f"{_range(distances)} {side} of {name}"
            for distances, side in ((self.before, "before the start"), (self.after, "after the end"))
            if distances[1]
        ]
        return " and ".join(parts)


def _widen(known: list[int], found: Sequence[int]) -> None:
    known[0] = min(known[0] or found[0], found[0])
    known[1] = max(known[1], found[1])


def _range(distances: Sequence[int]) -> str:
    near, far = distances
    number = f"{near:,}" if near == far else f"{near:,} to {far:,}"
    return f"{number} element{'s' if far > 1 else ''}"


class AccessLog:
    """What the launches of one call of a candidate did out of range or left undefined, by line of source."""

    def __init__(self, pattern: str) -> None:
        if pattern not in PATTERNS:
            raise ValueError(f"pattern must be one of {', '.join(PATTERNS)}, not {pattern!r}")
        self.pattern = pattern
        self._unfilled: dict[str, None] = {}
        self._lines: dict[tuple[str, str], _Line] = {}

    def note_unfilled(self, line: str) -> None:
        """A load at this line gave no `other` and had masked lanes."""
        self._unfilled[line] = None

    def note_outside(self, action: str, line: str, new: _Line) -> _Line:
        """The record of this line, which is `new` unless it was seen before."""
        return self._lines.setdefault((line, action), new)

    @property
    def unfilled_loads(self) -> list[str]:
        """Lines of loads without `other` that had masked lanes, in the order in which they ran."""
        return list(self._unfilled)

    @property
    def findings(self) -> list[GuardFinding]:
        """A finding for each of the first lines that went out of range."""
        found = []
        for (line, action), record in list(self._lines.items())[:MOST_FINDINGS]:
            lanes = "lane" if record.lanes == 1 else "lanes"
            message = (
                f"{record.kernel} at {line} {action} out of range: {record.lanes:,} active {lanes}, "
                f"{record.describe()} (first in program {', '.join(map(str, record.program))})"
            )
            found.append(GuardFinding(GUARD, message))
        return found


class LaunchGuard:
    """Judges the accesses of one launch."""

    def __init__(self, log: AccessLog, kernel: str, arguments: Sequence[Argument], *, is_open: bool) -> None:
        self._log = log
        self._kernel = kernel
        self._arguments = arguments
        self.is_open = is_open  # the launch has pointers that come from no argument
        merged: list[list[int]] = []
        for start, end in sorted((a.start, a.end) for a in arguments if a.start < a.end):
            if merged and start < merged[-1][1]:
                merged[-1][1] = max(end, merged[-1][1])
            else:
                merged.append([start, end])
        self._starts = [start for start, _ in merged]
        self._ends = [end for _, end in merged]

    def poison(self, element: Any, shape: tuple[int, ...]) -> Array:
        """What undefined lanes of this Triton type hold."""
        return make_poison(element, shape, self._log.pattern)

    def fill_masked(self, element: Any, mask: Array, shape: tuple[int, ...]) -> Array:
        """Values of the masked lanes of a load without `other`, whose line is noted if it has such lanes."""
        if mask.all():
            return np.empty(shape, get_numpy_dtype(element))
        self._log.note_unfilled(kernel_line())
        return self.poison(element, shape)

    def find_outside(
        self, action: str, pointer: Any, mask: Array, program: tuple[int, int, int]
    ) -> Array | None:
        """The active lanes beyond every argument, reported; None if there are none.

        Args:
            action: "reads", "writes" or "updates".
            pointer: handle of the addresses.
            mask: the active lanes.
            program: place in the grid.
        """
        addresses: Array = pointer.data
        itemsize = get_numpy_dtype(pointer.get_element_ty()).itemsize
        if self.is_open or not addresses.size or self._covers(addresses, itemsize):
            return None
        active = np.broadcast_to(mask, addresses.shape)
        chosen = addresses[active]
        if not chosen.size or self._covers(chosen, itemsize):
            return None
        beyond = self._is_beyond(chosen, itemsize)
        if not beyond.any():
            return None
        argument = self._find_argument(pointer, chosen[beyond])
        line = self._log.note_outside(action, kernel_line(), _Line(self._kernel, argument, program))
        line.add(chosen[beyond], line.argument, itemsize)
        outside = np.zeros(addresses.shape, np.bool_)
        outside[active] = beyond
        return outside

    def _covers(self, addresses: Array, itemsize: int) -> bool:
        """Whether one argument holds everything between the lowest and the highest address."""
        index = bisect_right(self._starts, int(addresses.min())) - 1
        return index >= 0 and int(addresses.max()) + itemsize <= self._ends[index]

    def _is_beyond(self, addresses: Array, itemsize: int) -> Array:
        if not self._starts:
            return np.ones(addresses.shape, np.bool_)
        index = np.searchsorted(np.array(self._starts, np.uint64), addresses, side="right") - 1
        last = np.array(self._ends, np.uint64) - np.uint64(itemsize)
        return (index < 0) | (addresses > last[index])

    def _find_argument(self, pointer: Any, beyond: Array) -> Argument:
        """The argument that the pointer came from, else the nearest one."""
        if isinstance(pointer.dtype, ArgumentPointer):
            return pointer.dtype.argument
        address = int(beyond.min())
        nearest = min(self._arguments, key=lambda a: max(a.start - address, address - a.end, 0), default=None)
        return nearest or Argument("no argument", 0, 0)


def _tensors(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, tuple):
        names = getattr(value, "_fields", range(len(value)))
        for part, item in zip(names, value, strict=True):
            yield from _tensors(f"{name}.{part}" if isinstance(part, str) else f"{name}[{part}]", item)
    elif isinstance(value, TensorDescriptor):
        yield from _tensors(name, value.base)
    elif hasattr(value, "data_ptr"):
        yield name, getattr(value, "base", value)  # a TensorWrapper's


def find_argument(name: str, tensor: Any, regions: Sequence[Region]) -> Argument | None:
    """The memory that a tensor gives to a launch: its storage, or the region that its first element is in.

    None if it has no storage.
    """
    try:
        storage = tensor.untyped_storage()
    except (AttributeError, NotImplementedError, RuntimeError):
        return None
    start = storage.data_ptr()
    end = start + storage.nbytes()
    first = tensor.data_ptr()
    for low, high in regions:
        if start <= low <= first <= high <= end:
            return Argument(name, low, high)
    return Argument(name, start, end)


def guard_launch(
    log: AccessLog, kernel: str, bound: Mapping[str, Any], values: Mapping[str, Any], regions: Sequence[Region]
) -> LaunchGuard:
    """A guard for a launch; pointers among `values` learn which argument they come from.

    Args:
        bound: the launch's arguments as the host gave them. values: the same as the kernel sees them.
    """
    tensors = [item for name, value in bound.items() for item in _tensors(name, value)]
    found = {name: find_argument(name, tensor, regions) for name, tensor in tensors}
    arguments = {name: argument for name, argument in found.items() if argument is not None}
    is_open = False
    for name, value in values.items():
        for part, handle in _pointers(name, value):
            if part in arguments:
                handle.dtype = ArgumentPointer(handle.dtype, arguments[part])
            else:  # an object without a storage, or an integer annotated as a pointer
                is_open = True
    return LaunchGuard(log, kernel, tuple(arguments.values()), is_open=is_open)


def _pointers(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Handles of the pointers in a kernel's argument, named as `_tensors` names them."""
    if isinstance(value, tuple):
        names = getattr(value, "_fields", range(len(value)))
        for part, item in zip(names, value, strict=True):
            yield from _pointers(f"{name}.{part}" if isinstance(part, str) else f"{name}[{part}]", item)
    elif isinstance(value, tl.core.tensor_descriptor_base):
        yield name, value.handle.base
    elif isinstance(value, tl.tensor) and isinstance(value.handle.dtype, tl.pointer_type):
        yield name, value.handle
