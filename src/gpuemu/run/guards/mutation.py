"""Inputs must be bit-unchanged after the call unless the contract declares them mutated (HACKS.md 30)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from gpuemu.model.observation import GuardFinding


def storage_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The whole storage of a tensor as uint8, gaps between strided elements included."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def compare(
    inputs: Mapping[str, torch.Tensor], before: Mapping[str, torch.Tensor], kept: Iterable[str]
) -> GuardFinding | None:
    """The finding, if the storage of an input that must be kept differs from what it was."""
    changed = [
        name for name in kept if not torch.equal(storage_bytes(inputs[name]), storage_bytes(before[name]))
    ]
    if not changed:
        return None
    return GuardFinding(
        "mutation", f"input {', '.join(changed)} was overwritten; the contract does not allow it"
    )
