"""Outputs must own their memory unless the contract says which inputs they may share it with (HACKS.md 30)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from gpuemu.model.observation import GuardFinding


def compare(
    inputs: Mapping[str, torch.Tensor], outputs: Sequence[torch.Tensor], permitted: Sequence[str]
) -> GuardFinding | None:
    """The finding, if an output shares storage with an input that is not among the permitted ones."""
    owners = {
        tensor.untyped_storage().data_ptr(): name
        for name, tensor in inputs.items()
        if name not in permitted and tensor.numel()
    }
    for position, output in enumerate(outputs):
        owner = owners.get(output.untyped_storage().data_ptr()) if output.numel() else None
        if owner is not None:
            return GuardFinding("alias", f"output {position} is a view of input {owner}")
    return None
