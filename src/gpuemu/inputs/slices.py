"""Parts of a case that are run alone, for ops that promise the same bits as within the batch."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from gpuemu.errors import OpDefinitionError
from gpuemu.model.case import Case
from gpuemu.model.observation import Slice
from gpuemu.model.op import Op


def make_slices(op: Op, case: Case, inputs: Mapping[str, torch.Tensor]) -> tuple[Slice, ...]:
    """One part per dim of `contract.batch_invariant`; none for a dim that the case gives no other size.

    A part is one index of the dim, the seed says which (where a dim does not admit 1, its smallest size). Its
    inputs are contiguous copies of the same values; inputs without the dim are copied whole.

    Args:
        inputs: of the case, in the op's order, on any device; left untouched.

    Raises:
        OpDefinitionError: a constraint excludes the part, so that the promise cannot be kept or broken.
    """
    parts = (_make_slice(op, case, inputs, name) for name in op.contract.batch_invariant)
    return tuple(part for part in parts if part is not None)


def _make_slice(op: Op, case: Case, inputs: Mapping[str, torch.Tensor], name: str) -> Slice | None:
    size, domain = case.dims[name], op.domains[name]
    width = next((smaller for smaller in range(1, size) if domain.contains(smaller)), None)
    if width is None:
        return None
    if not op.admits({**case.dims, name: width}):
        raise OpDefinitionError(
            f"op {op.name!r}: contract.batch_invariant names {name!r}, but a constraint excludes {name}={width}"
            f" with {dict(case.dims)}; drop the dim or mend the constraint"
        )
    start = case.seed % (size - width + 1)
    copies = {}
    for key, tensor in inputs.items():
        copy = tensor
        for axis, text in enumerate(op.axes_of(key, case.params)):
            if text == name:
                copy = copy.narrow(axis, start, width)
        copies[key] = copy.clone(memory_format=torch.contiguous_format)
    axes = tuple(_axis_of(name, text) for text in op.outputs)
    return Slice(name, size, start, width, copies, axes)


def _axis_of(name: str, shape: str) -> int | None:
    axes = shape.split()
    return axes.index(name) if name in axes else None
