"""From a case to its inputs, from a machine to a device, and from tensors to a digest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import torch

from gpuemu.dtypes import dtype_name
from gpuemu.errors import UsageError
from gpuemu.inputs import layouts
from gpuemu.inputs.elements import make_elements
from gpuemu.model.canonical import canonical_json
from gpuemu.model.case import Case
from gpuemu.model.op import Op


def make_inputs(op: Op, case: Case) -> dict[str, torch.Tensor]:
    """The inputs of a case: CPU tensors in the case's layouts, in the op's order.

    They are a pure function of the op's schema and the case, the same bytes on every machine and with every
    version of torch and NumPy. An input's values depend on neither its layout nor any other input.

    Raises:
        UsageError: the case names no layout or value class for an input, or an unknown one.
        OpDefinitionError: an input's bounds or sentinel contradict each other, its dtype or the dims.
    """
    inputs = {}
    for name in op.tensors:
        shape = op.shape_of(name, case.dims, case.params)
        if name not in case.layouts:
            raise UsageError(f"the case of op {case.op!r} names no layout for input {name!r}")
        elements = make_elements(op, name, shape, case)
        inputs[name] = layouts.apply(elements.view(shape), case.layouts[name])
    return inputs


def to_device(inputs: Mapping[str, torch.Tensor], device: str | torch.device) -> dict[str, torch.Tensor]:
    """Copies on `device` with the same strides and storage offsets, the storages' gaps included."""
    return {name: _copy(tensor, device) for name, tensor in inputs.items()}


def clone(inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies in fresh storages, each on its tensor's device; otherwise as `to_device`."""
    return {name: _copy(tensor, tensor.device) for name, tensor in inputs.items()}


def _copy(tensor: torch.Tensor, device: str | torch.device) -> torch.Tensor:
    storage = tensor.untyped_storage()
    if tensor.is_contiguous() and storage.nbytes() == tensor.nbytes:
        return tensor.detach().to(device, copy=True)
    # Raw bytes, since a storage need not be a whole number of elements long.
    source = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
    copied = source.to(device, copy=True)
    view = torch.empty(0, dtype=tensor.dtype, device=copied.device)
    return view.set_(copied.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())


def inputs_digest(inputs: Mapping[str, torch.Tensor]) -> str:
    """SHA-256 in hexadecimal over each input's name, dtype, shape, strides, storage offset and elements.

    The elements are hashed as little-endian bytes in row-major order. The inputs' order counts, a layout's gaps
    do not. Tensors on a device are copied to the CPU.
    """
    sha = hashlib.sha256()
    for name, tensor in inputs.items():
        place = [list(tensor.shape), list(tensor.stride()), tensor.storage_offset()]
        # JSON ends where its list closes and says how many bytes follow, so no two inputs run together.
        sha.update(canonical_json([name, dtype_name(tensor.dtype), *place]).encode())
        elements = tensor.detach().cpu().contiguous()
        # Not view(-1): an empty tensor or one of a single element counts as contiguous with any strides.
        flat = elements.as_strided((elements.numel(),), (1,))
        sha.update(flat.view(torch.uint8).numpy().data)
    return sha.hexdigest()


def tensors_digest(tensors: Sequence[torch.Tensor]) -> str:
    """`inputs_digest` of unnamed tensors, an op's outputs say: each is named by its position."""
    return inputs_digest({str(position): tensor for position, tensor in enumerate(tensors)})
