"""Outputs must own their memory unless the contract says which inputs they may share it with (HACKS.md 30)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from gpuemu.model.observation import GuardFinding


def find(inputs: Mapping[str, torch.Tensor], outputs: Sequence[torch.Tensor]) -> tuple[tuple[int, str], ...]:
    """Pairs of an output's position and the name of the input in whose memory it lies."""
    owners = [(name, *_extent(tensor)) for name, tensor in inputs.items() if tensor.numel()]
    return tuple(
        (position, name)
        for position, output in enumerate(outputs)
        for name, start, end in owners
        if output.numel() and start <= output.data_ptr() < end
    )


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    start = tensor.untyped_storage().data_ptr()
    return start, start + tensor.untyped_storage().nbytes()


def judge(aliases: Sequence[tuple[int, str]], permitted: Sequence[str]) -> GuardFinding | None:
    """The finding, if an output shares memory with an input that is not among the permitted ones."""
    for position, name in aliases:
        if name not in permitted:
            return GuardFinding("alias", f"output {position} is a view of input {name}")
    return None
