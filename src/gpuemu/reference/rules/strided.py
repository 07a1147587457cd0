"""`as_strided`: a view by memory positions, of values and errors alike (rule 1)."""

from __future__ import annotations

from typing import Any

import torch

from gpuemu.reference.bounded import Bounded
from gpuemu.reference.errors import UnsupportedReferenceError
from gpuemu.reference.registry import Call, rule

Tensor = torch.Tensor


@rule("as_strided")
def as_strided(call: Call) -> Any:
    """A view of the memory of the tensor that the argument is a view of; positions count from its start.

    An input with gaps or overlaps lies without them here: its reference has to index it.
    """
    source, size, stride = call.follow(call.args[0]), list(call.args[1]), list(call.args[2])
    root: Bounded = source if source.base is None else source.base
    value = root.value
    if not _is_dense(value) or source.value.untyped_storage().data_ptr() != value.untyped_storage().data_ptr():
        raise UnsupportedReferenceError(
            "the reference takes an as_strided view of a tensor with gaps or overlaps; index it instead"
        )
    start = call.argument(3, "storage_offset")
    if start is None:
        start = source.value.storage_offset() - value.storage_offset()
    strides = value.stride()

    def step(tensor: Tensor) -> Tensor:
        if tensor.stride() != strides:  # an error may lie in memory in another way
            tensor = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device).copy_(
                tensor
            )
        return tensor.as_strided(size, stride, tensor.storage_offset() + start)

    error = root.error
    return root.make_view(step, step(value), None if error is None else step(error))


def _is_dense(x: Tensor) -> bool:
    """Whether every element has one place in memory, without gaps in between."""
    expected = 1
    for stride, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
