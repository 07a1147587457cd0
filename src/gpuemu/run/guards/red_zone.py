"""Red zones: memory before and after every input that a kernel must neither read nor write.

Inputs are laid out in one *arena* of bytes, each storage 256-byte aligned as an allocator would (a kernel is
then specialised as in real use; a case whose layout has an offset keeps it), with a zone on either side and the
gaps of strided views filled too: with NaN and with 1e30 in turn. What is read there shows in the outputs, what
is written there shows in the bytes (BUGS.md: poison).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

from gpuemu.dtypes import dtype_name
from gpuemu.model.observation import GuardFinding

NAME = "red_zone"
ALIGNMENT_BYTES = 256
SMALLEST_ZONE_BYTES = 256
LARGEST_ZONE_BYTES = 4096
LARGE = 1e30


@dataclass(frozen=True)
class Place:
    """Where one input lies: its storage in the arena, its elements in the storage.

    offset_bytes, storage_bytes: of the storage. shape, strides, storage_offset: in elements. fill: what its
    gaps and zones hold if its elements are no floats: its own largest element, since a number out of an
    index's range would make a kernel crash where it only misplaces.
    """

    name: str
    dtype: str
    offset_bytes: int
    storage_bytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    storage_offset: int
    fill: int = 0


@dataclass(frozen=True)
class ArenaPlan:
    """Where every input of a call lies, in call order."""

    places: tuple[Place, ...]
    size_bytes: int

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; inverse of `from_json`."""
        return {"places": [list(vars(place).values()) for place in self.places], "size_bytes": self.size_bytes}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> ArenaPlan:
        """The plan of a document written by `to_json`."""
        places = tuple(
            Place(name, dtype, offset, size, tuple(shape), tuple(strides), storage_offset, fill)
            for name, dtype, offset, size, shape, strides, storage_offset, fill in document["places"]
        )
        return ArenaPlan(places, int(document["size_bytes"]))


def plan_arena(inputs: Mapping[str, torch.Tensor]) -> ArenaPlan:
    """Place each input's storage in an arena, with zones around and between them."""
    places, end = [], 0
    for name, tensor in inputs.items():
        storage_bytes = tensor.untyped_storage().nbytes()
        zone = _zone_bytes(tensor)
        start = _aligned(end + zone)
        strides, offset = tuple(map(int, tensor.stride())), int(tensor.storage_offset())
        filling = _integer_fill(tensor)
        shape, dtype = tuple(tensor.shape), dtype_name(tensor.dtype)
        places.append(Place(name, dtype, start, storage_bytes, shape, strides, offset, filling))
        end = start + storage_bytes + zone
    return ArenaPlan(tuple(places), _aligned(max(end, ALIGNMENT_BYTES)))


def fill(arena: torch.Tensor, plan: ArenaPlan, inputs: Mapping[str, torch.Tensor], pattern: str) -> None:
    """Write inputs, gaps and zones into an arena (uint8, `plan.size_bytes` long).

    Args:
        inputs: those that the plan was made of, or others of the same layout. pattern: "nan" or "large".
    """
    before = 0
    for number, (place, tensor) in enumerate(zip(plan.places, inputs.values(), strict=True)):
        last = number == len(plan.places) - 1
        # Up to where the next input's zone begins, at a multiple of every element's size.
        after = plan.size_bytes if last else _aligned(place.offset_bytes + place.storage_bytes)
        _paint(arena[before : place.offset_bytes], place, pattern)
        end = place.offset_bytes + place.storage_bytes
        _paint(arena[end:after], place, pattern)
        before = after
        storage = arena[place.offset_bytes : end]
        if place.storage_bytes <= tensor.numel() * tensor.element_size():  # no gaps; an expanded one has none
            storage.copy_(_as_bytes(tensor))
        else:
            _paint(storage, place, pattern)
            _view(storage, place).copy_(tensor)


def views(arena: torch.Tensor, plan: ArenaPlan) -> dict[str, torch.Tensor]:
    """The inputs that lie in an arena: tensors whose storages begin and end where those of the inputs do."""
    found = {}
    for place in plan.places:
        storage = arena[place.offset_bytes : place.offset_bytes + place.storage_bytes]
        # Through DLPack, so that the storage is the part alone and not the arena.
        alone = from_dlpack(storage.detach()) if place.storage_bytes else torch.empty_like(storage)
        found[place.name] = _view(alone, place)
    return found


def compare(arena: torch.Tensor, before: torch.Tensor, plan: ArenaPlan) -> GuardFinding | None:
    """The finding, if bytes outside every storage changed: next to which input, and how far off."""
    changed = (arena != before).nonzero().view(-1).cpu()
    for place in plan.places:
        inside = (changed >= place.offset_bytes) & (changed < place.offset_bytes + place.storage_bytes)
        changed = changed[~inside]
    if not len(changed):
        return None
    first, last = int(changed[0]), int(changed[-1])
    place, distance = min(
        ((place, _distance(place, first)) for place in plan.places), key=lambda pair: abs(pair[1])
    )
    where = f"{distance} bytes after" if distance > 0 else f"{-distance} bytes before"
    edge = "the end" if distance > 0 else "the start"
    return GuardFinding(
        NAME,
        f"wrote {len(changed)} bytes outside its inputs, the first {where} {edge} of {place.name}"
        + (f", spread over {last - first + 1} bytes" if last - first + 1 > len(changed) else ""),
    )


def _distance(place: Place, byte: int) -> int:
    """Bytes from a storage to a byte outside it: -1 for the last before, 1 for the first after."""
    if byte < place.offset_bytes:
        return byte - place.offset_bytes
    return byte - (place.offset_bytes + place.storage_bytes) + 1


def _zone_bytes(tensor: torch.Tensor) -> int:
    """A row on either side if it is not too long: an index that is off by one row then lands in it."""
    row = tensor.shape[-1] * tensor.element_size() if tensor.dim() else 0
    return min(max(SMALLEST_ZONE_BYTES, row), LARGEST_ZONE_BYTES)


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def _integer_fill(tensor: torch.Tensor) -> int:
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex or not tensor.numel():
        return 0
    return int(tensor.max())


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def _view(storage: torch.Tensor, place: Place) -> torch.Tensor:
    # A storage need not be a whole number of elements long, hence not `view(dtype)`.
    view = torch.empty(0, dtype=getattr(torch, place.dtype), device=storage.device)
    offset = storage.storage_offset() // view.element_size() + place.storage_offset
    return view.set_(storage.untyped_storage(), offset, place.shape, place.strides)


def _paint(zone: torch.Tensor, place: Place, pattern: str) -> None:
    """Fill bytes that start at a multiple of the element size from the storage with the pattern's element."""
    if not zone.numel():
        return
    element = _element(place.dtype, pattern, place.fill)
    size = len(element)
    whole = zone.numel() // size * size
    tile = torch.tensor(list(element), dtype=torch.uint8, device=zone.device)
    zone[:whole].view(-1, size).copy_(tile)
    if whole < zone.numel():
        zone[whole:].copy_(tile[: zone.numel() - whole])


@cache
def _element(dtype: str, pattern: str, integer: int) -> bytes:
    kind: torch.dtype = getattr(torch, dtype)
    value: float = integer
    if kind.is_floating_point or kind.is_complex:
        largest = torch.finfo(kind).max
        value = math.nan if pattern == "nan" else min(LARGE, largest)
    return bytes(torch.tensor([value], dtype=torch.float64).to(kind).view(torch.uint8).tolist())
