"""Inputs on a device, as bytes that the judge can lay out for a worker: fetched once, not for every call."""

from __future__ import annotations

from collections.abc import Mapping

import torch

Inputs = Mapping[str, torch.Tensor]


class HostCopies:
    """Keeps the copies that it made last; most calls of a case are on the same inputs."""

    def __init__(self) -> None:
        self._originals: tuple[torch.Tensor, ...] = ()
        self._versions: tuple[int, ...] = ()
        self._copies: Inputs = {}

    def of(self, inputs: Inputs) -> Inputs:
        """Tensors on the CPU with the same elements, strides and gaps; CPU tensors as they are."""
        tensors = tuple(inputs.values())
        if all(tensor.device.type == "cpu" for tensor in tensors):
            return inputs
        versions = tuple(tensor._version for tensor in tensors)
        if not self._are_held(tensors) or versions != self._versions or inputs.keys() != self._copies.keys():
            self._copies = {name: _fetch(tensor) for name, tensor in inputs.items()}
            self._originals, self._versions = tensors, versions
        return self._copies

    def _are_held(self, tensors: tuple[torch.Tensor, ...]) -> bool:
        held = self._originals
        return len(held) == len(tensors) and all(a is b for a, b in zip(held, tensors, strict=True))


def _fetch(tensor: torch.Tensor) -> torch.Tensor:
    # All of the storage: `Tensor.cpu` would give an expanded or strided tensor another layout.
    storage = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
    copy = torch.empty(0, dtype=tensor.dtype)
    fetched = storage.cpu().untyped_storage()
    return copy.set_(fetched, tensor.storage_offset(), tensor.shape, tensor.stride())
