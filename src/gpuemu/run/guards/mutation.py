"""Inputs must be bit-unchanged after the call unless the contract declares them mutated (HACKS.md 30)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from gpuemu.model.observation import GuardFinding


def storage_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The whole storage of a tensor as uint8, gaps between strided elements included."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def take(inputs: Mapping[str, torch.Tensor], names: Iterable[str]) -> dict[str, torch.Tensor]:
    """Copies of the storages of the named inputs."""
    return {name: storage_bytes(inputs[name]).clone() for name in names}


def restore(inputs: Mapping[str, torch.Tensor], before: Mapping[str, torch.Tensor]) -> None:
    """Write the copies back, so that an op that overwrites its inputs can be called on them again."""
    for name, copy in before.items():
        storage_bytes(inputs[name]).copy_(copy)


def compare(inputs: Mapping[str, torch.Tensor], before: Mapping[str, torch.Tensor]) -> GuardFinding | None:
    """The finding, if an input's storage differs from its copy."""
    changed = [name for name, copy in before.items() if not torch.equal(storage_bytes(inputs[name]), copy)]
    if not changed:
        return None
    return GuardFinding(
        "mutation", f"input {', '.join(changed)} was overwritten; the contract does not allow it"
    )
