"""Poison: what a kernel allocates without initialising it holds NaN, or 1e30, and lies between red zones.

An element that is never written, or scratch that is read before, then shows: as NaN in the first call, and as a
difference between calls of different poison (HACKS.md 1 and 9; BUGS.md: poison). Torch hands out memory through
a handful of operators, which are caught beside the candidate; memory that a kernel gets elsewhere is not seen.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.dlpack import from_dlpack

from gpuemu.model.observation import GuardFinding
from gpuemu.run.guards.repeat import all_same_bits

NAME = "poison"
ZONE_BYTES = 256
LARGE = 1e30
MOST_WATCHED = 256  # allocations of a call; beyond it only the poison is laid
_INTEGERS = {1: 0x55, 2: 0x5555, 4: 0x55555555, 8: 0x5555555555555555}  # large, odd, and no index
_aten = torch.ops.aten
_ALLOCATORS = frozenset(
    (
        _aten.empty.memory_format, _aten.empty_strided.default, _aten.empty_like.default,
        _aten.new_empty.default, _aten.new_empty_strided.default,
    )
)  # fmt: skip


class Poison(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While active, gives uninitialised allocations poison and red zones; `findings` says which were overrun.

    pattern: "nan" or "large".
    """

    def __init__(self, pattern: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._pattern = pattern
        self._watched: list[tuple[torch.Tensor, torch.Tensor, str]] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), options: dict[str, Any] | None = None
    ) -> Any:
        result = function(*arguments, **(options or {}))
        if function in _ALLOCATORS and self._is_plain(result):
            return self._guard(result)
        return result

    @staticmethod
    def _is_plain(result: torch.Tensor) -> bool:
        return (
            type(result) is torch.Tensor
            and result.layout is torch.strided
            and result.device.type in ("cpu", "cuda")
            and result.numel() > 0
            and not result.is_quantized
        )

    def _guard(self, result: torch.Tensor) -> torch.Tensor:
        """A tensor like `result` in the middle of a larger allocation, poisoned all over."""
        size_bytes = result.untyped_storage().nbytes()
        if len(self._watched) >= MOST_WATCHED or result.is_pinned():
            _paint(_as_bytes(result), result.dtype, self._pattern)
            return result
        padded = -(-size_bytes // ZONE_BYTES) * ZONE_BYTES
        whole = torch.empty(padded + 2 * ZONE_BYTES, dtype=torch.uint8, device=result.device)
        _paint(whole, result.dtype, self._pattern)
        # Through DLPack, so that the storage is the part alone: nothing of a candidate's sees the zones.
        alone = from_dlpack(whole[ZONE_BYTES : ZONE_BYTES + size_bytes])
        guarded = torch.empty(0, dtype=result.dtype, device=result.device)
        guarded.set_(alone.untyped_storage(), alone.storage_offset(), result.shape, result.stride())
        text = f"{tuple(result.shape)} {str(result.dtype).removeprefix('torch.')} buffer{_place()}"
        end = ZONE_BYTES + size_bytes
        zones = torch.cat((whole[:ZONE_BYTES], whole[end:])).clone()
        self._watched.append((whole, zones, text))
        return guarded.requires_grad_(result.requires_grad) if result.requires_grad else guarded

    def findings(self) -> list[GuardFinding]:
        """What was written outside an allocation; to be asked after the call."""
        found = []
        for whole, zones, text in self._watched:
            end = len(whole) - (len(zones) - ZONE_BYTES)
            before = int((whole[:ZONE_BYTES] != zones[:ZONE_BYTES]).sum())
            after = int((whole[end:] != zones[ZONE_BYTES:]).sum())
            if before or after:
                where = f"{before} bytes before" if before else f"{after} bytes past the end of"
                found.append(GuardFinding(NAME, f"wrote {where} a {text}"))
        return found[:1]


def judge(calls: Sequence[tuple[str, tuple[torch.Tensor, ...]]]) -> GuardFinding | None:
    """The finding, if outputs depend on the poison: calls of one pattern agree, those of two do not.

    Args:
        calls: each call's pattern and outputs, in order.
    """
    by_pattern: dict[str, list[tuple[torch.Tensor, ...]]] = {}
    for pattern, outputs in calls:
        by_pattern.setdefault(pattern, []).append(outputs)
    groups = list(by_pattern.values())
    if len(groups) < 2 or any(len(group) < 2 for group in groups):
        return None
    if any(not all_same_bits(group[0], other) for group in groups for other in group[1:]):
        return None  # it differs on its own
    first, second = groups[0][0], groups[1][0]
    if all_same_bits(first, second):
        return None
    count = sum(_count_different(a, b) for a, b in zip(first, second, strict=True))
    total = sum(output.numel() for output in first)
    return GuardFinding(
        NAME,
        f"{count} of {total} output elements follow from memory that was never written: they change with what "
        "it holds",
    )


def _count_different(a: torch.Tensor, b: torch.Tensor) -> int:
    return int((_as_bytes(a.contiguous()) != _as_bytes(b.contiguous())).view(a.numel(), -1).any(-1).sum())


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def _paint(memory: torch.Tensor, dtype: torch.dtype, pattern: str) -> None:
    """Fill bytes with the poison of a dtype."""
    size = dtype.itemsize
    whole = memory[: memory.numel() // size * size]
    if dtype.is_complex:
        dtype = torch.float32 if size == 8 else torch.float64
    if dtype.is_floating_point:
        value = math.nan if pattern == "nan" else min(LARGE, torch.finfo(dtype).max)
        whole.view(dtype).fill_(value)
    elif dtype is torch.bool:
        whole.fill_(pattern == "nan")
    else:
        whole.view(dtype).fill_(_INTEGERS[size] if pattern == "nan" else _INTEGERS[size] - 2)


def _place() -> str:
    """Where the candidate allocated: the innermost frame that is neither torch's nor ours."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if "/torch/" not in name and "/gpuemu/run/" not in name:
            return f" allocated at {name.rpartition('/')[2]}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return ""
