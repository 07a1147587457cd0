"""Which addresses an interpreted launch may touch, what it touched beyond them, and what undefined lanes hold.

An access is judged against the storages of all tensors that the launch was given, not against the tensor that
its pointer came from: fused kernels take one view and reach its siblings by offsets that the host computed.

A pointer may also be made from an integer, loaded from a table of pointers, or given as an object without a
storage. Any live tensor that it points into then belongs to the launch. If it points into memory that is no
tensor's (an array of NumPy's, say), only the host knows how far that reaches: from then on in this launch,
accesses through pointers that come from no argument are judged by one thing only, whether the process has
memory there.
"""

from __future__ import annotations

import sys
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

from gpuemu.candidates.triton_known_memory import (
    Ranges,
    Region,
    find_mapped_memory,
    find_tensor_memory,
    get_storage,
)
from gpuemu.candidates.triton_numbers import FLOAT8, Array
from gpuemu.candidates.triton_types import get_numpy_dtype, get_pointee
from gpuemu.model.observation import GuardFinding

GUARD = "out_of_range"
MOST_FINDINGS = 3
PATTERNS = ("nan", "large", "zero")
# Odd, far from any size or index, and no sum of a few powers of two; the sign bit is added for "large".
_ODD = {1: 0x5B, 2: 0x5BA5, 4: 0x5BA5_C3B7, 8: 0x5BA5_C3B7_9D63_E1AF}
_INNER = tuple(f"{folder}/" for folder in (Path(triton.__file__).parent, Path(__file__).parent))

LONGEST_LOOP = 1 << 24  # turns; a turn takes 10 µs and more, so a longer loop runs for minutes


class UndefinedLoopError(RuntimeError):
    """A loop's bounds come from undefined values, as far as can be told."""


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
    def lines_outside(self) -> list[str]:
        """Lines that went out of range, in the order in which they ran."""
        return list(dict.fromkeys(line for line, _ in self._lines))

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

    def __init__(self, log: AccessLog, kernel: str, arguments: Sequence[Argument]) -> None:
        self._log = log
        self._kernel = kernel
        self._arguments = list(arguments)
        self._known = Ranges((a.start, a.end) for a in arguments)
        self._live: Ranges | None = None  # of every tensor, looked up when an address asks for it
        self.is_open = False  # the launch has pointers into memory whose owner is not known

    def adopt(self, pointer: Any) -> None:
        """This pointer was made from integers: tensors that it points into belong to the launch.

        If that is one tensor, the pointer's type remembers it. A pointer into mapped memory that is no
        tensor's opens the launch.
        """
        addresses: Array = pointer.data
        self._look_up(addresses[self._known.is_beyond(addresses, 1) & (addresses != 0)])
        for argument in self._arguments:
            if addresses.size and addresses.min() >= argument.start and addresses.max() < argument.end:
                pointer.dtype = ArgumentPointer(pointer.dtype, argument)

    def _look_up(self, fresh: Array) -> None:
        if self.is_open or not fresh.size:
            return
        if self._live is None:
            self._live = find_tensor_memory()
        found = self._live.holding(fresh)
        if found:
            self._arguments += [Argument("a tensor given by its address", *region) for region in found]
            self._known = Ranges((a.start, a.end) for a in self._arguments)
        unknown = fresh[self._live.is_beyond(fresh, 1)]
        if unknown.size:
            mapped = find_mapped_memory()
            self.is_open = mapped is None or not mapped.is_beyond(unknown, 1).all()

    def poison(self, element: Any, shape: tuple[int, ...]) -> Array:
        """What lanes of this Triton type hold that were read out of range."""
        return make_poison(element, shape, "large" if self._log.pattern == "large" else "nan")

    def fill_masked(self, element: Any, mask: Array, shape: tuple[int, ...]) -> Array:
        """Values of the masked lanes of a load without `other`, whose line is noted if it has such lanes."""
        if mask.all():
            return np.empty(shape, get_numpy_dtype(element))
        self._log.note_unfilled(kernel_line())
        if self._log.pattern == "zero":
            return np.zeros(shape, get_numpy_dtype(element))
        return self.poison(element, shape)

    def find_outside(
        self, action: str, pointer: Any, mask: Array, program: tuple[int, int, int]
    ) -> Array | None:
        """The active lanes beyond every tensor of the launch, reported; None if there are none.

        Args:
            action: "reads", "writes" or "updates".
            pointer: handle of the addresses.
            mask: the active lanes.
            program: place in the grid.
        """
        addresses: Array = pointer.data
        itemsize = get_numpy_dtype(get_pointee(pointer)).itemsize
        if not addresses.size or self._known.covers(addresses, itemsize):
            return None
        active = np.broadcast_to(mask, addresses.shape)
        chosen = addresses[active]
        if not chosen.size or self._known.covers(chosen, itemsize):
            return None
        beyond = self._known.is_beyond(chosen, itemsize)
        if self.is_open and not isinstance(pointer.dtype, ArgumentPointer):
            mapped = find_mapped_memory(writable=action != "reads")
            beyond &= mapped is not None and mapped.is_beyond(chosen, itemsize)
        if not beyond.any():
            return None
        argument = self._find_argument(pointer, chosen[beyond])
        line = self._log.note_outside(action, kernel_line(), _Line(self._kernel, argument, program))
        line.add(chosen[beyond], line.argument, itemsize)
        outside = np.zeros(addresses.shape, np.bool_)
        outside[active] = beyond
        return outside

    def check_loop(self, trips: int) -> None:
        """Refuse a loop that would not end before long, if something undefined was loaded before."""
        places = [*self._log.unfilled_loads, *self._log.lines_outside]
        if trips > LONGEST_LOOP and places:
            raise UndefinedLoopError(
                f"a loop of {trips:,} turns, after undefined values were loaded at {', '.join(places)}"
            )

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
    storage = get_storage(tensor)
    if storage is None:
        return None
    start, end = storage
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
    guard = LaunchGuard(log, kernel, tuple(arguments.values()))
    for name, value in values.items():
        for part, handle in _pointers(name, value):
            if part in arguments:
                handle.dtype = ArgumentPointer(handle.dtype, arguments[part])
            else:  # an object without a storage, or an integer annotated as a pointer
                guard.adopt(handle)
    return guard


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
