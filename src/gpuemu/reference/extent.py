"""How large elements and errors are at most, known without looking at them.

A tensor of values remembers its extent together with the error tensor that it is about: beside another error
it says nothing. Whoever writes into a value or an error afterwards has to make a new tensor, as `Bounded` does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gpuemu.reference.pieces import is_call_bound

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True)
class Extent:
    """No |value| + error exceeds `reach`, no error exceeds `error`; so that all of them are finite."""

    reach: float
    error: float = 0.0


def mark(value: Tensor, error: Tensor | None, extent: Extent | None) -> None:
    """Note the extent of a value with its error; None notes nothing."""
    if extent is not None:
        value.known_extent = (error, extent)  # type: ignore[attr-defined]


def extent_of(value: Any, error: Tensor | None) -> Extent | None:
    """The extent of an operand, a tensor or a number with its error; None if it is not known."""
    if isinstance(value, Tensor):
        known = getattr(value, "known_extent", None)
        return known[1] if known is not None and known[0] is error else None
    off = 0.0 if error is None else getattr(error, "known_number", math.nan)
    reach = abs(value) + off
    return Extent(reach, off) if reach < math.inf else None


def mark_positive(value: Tensor, positive: bool = True) -> None:
    """Note that no element is negative, until one is written; or that this is not known."""
    if not value.is_inference():
        value.known_positive = value._version if positive else None  # type: ignore[attr-defined]


def is_positive(value: Any) -> bool:
    """Whether no element of a tensor, or no number, is known to be negative; some may be NaN."""
    if isinstance(value, Tensor):
        known = getattr(value, "known_positive", None)
        return known is not None and bool(known == value._version)
    return bool(value >= 0)


def size_of(value: Tensor, out: Tensor | None = None) -> Tensor:
    """|x|, not to be written to where it `is_shared`: remembered where calls cost more than memory does."""
    if is_positive(value):
        return value
    if not is_shared(value):
        return torch.abs(value, out=out)
    known = getattr(value, "known_size", None)
    if known is None or known[0] != value._version:
        known = value.known_size = (value._version, value.abs())  # type: ignore[attr-defined]
    size: Tensor = known[1]
    return size


def is_shared(value: Tensor) -> bool:
    """Whether `size_of` gives a tensor that others may hold as well."""
    return is_positive(value) or (is_call_bound(value) and not value.is_inference())


def carry(value: Tensor, error: Tensor | None, moved: Tensor, moved_error: Tensor | None) -> None:
    """Note for moved or selected elements what is known of all."""
    if moved is not value:
        mark(moved, moved_error, extent_of(value, error))
        if is_positive(value):
            mark_positive(moved)


def measure(value: Tensor, error: Tensor | None) -> Extent | None:
    """The extent by looking; None if something is not finite."""
    if value.numel() == 0:
        return Extent(0.0)
    extremes = [value.amax(), value.amin()]  # NaN goes through, and then compares false
    if error is not None:
        extremes.append(error.amax())
    high, low, *largest = to_numbers(extremes)
    off = largest[0] if largest else 0.0
    reach = max(-low, high) + off
    return Extent(reach, off) if reach < math.inf and not math.isnan(low) else None


def union(extents: Iterable[Extent | None]) -> Extent | None:
    """The extent of tensors taken together; None if that of one is not known."""
    reach = error = 0.0
    for extent in extents:
        if extent is None:
            return None
        reach, error = max(reach, extent.reach), max(error, extent.error)
    return Extent(reach, error)


def is_finite(value: Tensor) -> bool:
    """Whether a tensor of values is known to have no infinity and no NaN."""
    return hasattr(value, "known_extent")


def to_numbers(tensors: Sequence[Tensor]) -> list[float]:
    """Float tensors of one element as numbers. On a device, the host waits once for all of them."""
    if len(tensors) < 2 or not tensors[0].is_cuda:
        return [float(tensor) for tensor in tensors]
    if any(tensor.dtype != tensors[0].dtype for tensor in tensors):
        tensors = [tensor.double() for tensor in tensors]
    numbers: list[float] = torch.stack(list(tensors)).tolist()
    return numbers


def _comparable(x: Tensor) -> Tensor:
    """8-bit floats as float32, since torch cannot compare those."""
    return x.float() if x.element_size() == 1 else x


def _find_ends(tensors: Sequence[Tensor]) -> list[float]:
    """The least and the largest element of each tensor."""
    if tensors and tensors[0].is_cuda and all(x.dtype == tensors[0].dtype for x in tensors):
        return find_ends_together(tensors)
    return to_numbers([end for x in tensors for end in torch.aminmax(x)])


def find_ends_together(tensors: Sequence[Tensor]) -> list[float]:
    """As `_find_ends` for one dtype, in one tensor that the host then waits for."""
    ends = torch.empty(2 * len(tensors), dtype=tensors[0].dtype, device=tensors[0].device)
    places = ends.unbind(0)
    for x, low, high in zip(tensors, places[::2], places[1::2], strict=True):
        torch.aminmax(x, out=(low, high))
    numbers: list[float] = ends.tolist()
    return numbers


def survey(inputs: Iterable[Tensor]) -> tuple[dict[int, Extent], bool]:
    """The extents of float tensors whose elements are finite, by `id`; and whether any holds an infinity."""
    floats = [x for x in inputs if x.is_floating_point() and x.numel()]
    numbers = _find_ends([_comparable(x) for x in floats])
    extents, infinite = {}, False
    for x, low, high in zip(floats, numbers[::2], numbers[1::2], strict=True):
        reach = max(-low, high)
        if reach < math.inf:
            extents[id(x)] = Extent(reach)
        elif reach == math.inf or bool(_comparable(x).isinf().any()):  # NaN hides what else there is
            infinite = True
    return extents, infinite
