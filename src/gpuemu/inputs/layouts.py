"""Layouts: where a tensor's elements lie in memory. Values never depend on them, but for "expanded".

Every layout is a view of a storage whose other elements, the gaps, hold a loud value, so that a kernel which
assumes other strides than it was given reads something that shows. An expanded tensor is one element in
memory, whatever its shape: beyond it there is nothing to read.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from gpuemu.errors import UsageError
from gpuemu.model.op import LAYOUTS

Shape = tuple[int, ...]

ROW_GAP = 8
"""Elements between the rows of `row_gap`: rows keep a 16-byte alignment that their length gives them, so that
only the stride is on trial (the alignment is `offset`'s part)."""


class Geometry(NamedTuple):
    """Strides, storage offset and storage size of a tensor, all in elements."""

    strides: Shape
    storage_offset: int
    storage_size: int


def geometry(shape: Shape, layout: str) -> Geometry:
    """Where `layout` puts the elements of a tensor of `shape`.

    - contiguous: row-major.
    - transposed: the last two axes swapped in memory; rank 0 and 1 have no two axes and become strided.
    - strided: every second element, so the last axis has stride 2.
    - row_gap: `ROW_GAP` elements after every row; of rank 1, the one row is contiguous before a tail.
    - offset: row-major from element 1 on, hence not 16-byte aligned for elements of at most 8 bytes.
    - expanded: stride 0 along every axis; all elements are one and the same, as in the gradient that
      `loss.sum().backward()` hands on.

    Raises:
        UsageError: `layout` is unknown.
    """
    if layout not in LAYOUTS:
        raise UsageError(f"unknown layout {layout!r}; known: {', '.join(LAYOUTS)}")
    size = math.prod(shape)
    if layout == "expanded":
        return Geometry((0,) * len(shape), 0, min(size, 1))
    if layout == "transposed" and len(shape) >= 2:
        *batch, row, column = _row_major((*shape[:-2], shape[-1], shape[-2]))
        return Geometry((*batch, column, row), 0, size)
    if layout in ("transposed", "strided"):
        return Geometry(tuple(2 * stride for stride in _row_major(shape)), 0, 2 * size)
    if layout == "row_gap" and shape:
        padded = (*shape[:-1], shape[-1] + ROW_GAP)
        return Geometry(_row_major(padded), 0, math.prod(padded))
    if layout == "offset":
        return Geometry(_row_major(shape), 1, size + 1)
    return Geometry(_row_major(shape), 0, size)


def _row_major(shape: Shape) -> Shape:
    """Strides of a contiguous tensor; torch counts an axis of size 0 as 1."""
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * max(size, 1))
    return tuple(reversed(strides[: len(shape)]))


def apply(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """A tensor of the same values, shape, dtype and device in `layout`; `tensor` itself if it is so already.

    Expanded, every element has the value of the first one that is not zero, else zero.

    Raises:
        UsageError: `layout` is unknown.
    """
    strides, storage_offset, storage_size = geometry(tuple(tensor.shape), layout)
    if layout == "contiguous" and tensor.stride() == strides and tensor.storage_offset() == 0:
        return tensor
    if layout == "expanded":
        return _one_element(tensor).as_strided(tensor.shape, strides)
    storage = torch.empty(storage_size, dtype=tensor.dtype, device=tensor.device)
    if storage_size > tensor.numel():
        storage.fill_(gap_value(tensor))
    view = storage.as_strided(tensor.shape, strides, storage_offset)
    return view.copy_(tensor)


def _one_element(tensor: torch.Tensor) -> torch.Tensor:
    """The first element that is not zero, else the first, as a tensor of one element; empty stays empty."""
    flat = tensor.contiguous().view(-1)
    # As bytes of a comparison, which every dtype has; argmax gives the first of equals.
    place = int((flat != 0).view(torch.uint8).argmax()) if flat.numel() else 0
    return flat[place : place + 1].clone()


def gap_value(tensor: torch.Tensor) -> float | int | bool:
    """What the gaps hold: NaN for floats, True for bool, an integer tensor's own largest element.

    Integers are often indices: a number out of their range would end an inline run in a crash of its own
    making, and one within it still moves every element that a kernel misplaces.
    """
    if tensor.dtype.is_floating_point:
        return math.nan
    if tensor.dtype == torch.bool:
        return True
    return int(tensor.max()) if tensor.numel() else 0


def effective(shape: Shape, layout: str) -> str:
    """The layout that a tensor of `shape` truly has after `apply`, since small shapes leave some no room.

    An axis of size 1 has no stride to get wrong, and an empty tensor has no elements to misplace. So a
    transposed row or column is "contiguous", a single row with a gap too; a strided column is a "row_gap".

    Raises:
        UsageError: `layout` is unknown.
    """
    strides, storage_offset, _ = geometry(shape, layout)
    if 0 in shape:
        return "contiguous"
    if storage_offset:
        return layout
    axes = zip(shape, strides, _row_major(shape), strict=True)
    if all(size == 1 or stride == plain for size, stride, plain in axes):
        return "contiguous"
    if layout == "transposed":
        return "transposed" if len(shape) >= 2 else "strided"
    if layout == "strided" and shape[-1] == 1:
        return "row_gap"
    return layout
