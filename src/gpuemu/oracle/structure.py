"""Whether outputs have the right number, type, dtype, shape and device, before any value is looked at.

Nothing is broadcast: an output of shape (1,) that would compare equal to a constant result is wrong
(HACKS.md section 2A, class 5).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gpuemu.dtypes import dtype_name
from gpuemu.model.expected import ExpectedOutput
from gpuemu.model.verdict import Kind


def structural_problem(
    outputs: Sequence[object], expected: Sequence[ExpectedOutput]
) -> tuple[Kind, str] | None:
    """The first structural difference as (kind, message); None where there is none.

    A wrong number, type or device counts as kind `shape`: the outputs cannot be laid beside the expected ones.
    """
    if len(outputs) != len(expected):
        return Kind.SHAPE, f"returned {_count(len(outputs))}, expected {_count(len(expected))}"
    for position, (actual, output) in enumerate(zip(outputs, expected, strict=True)):
        # The exact type: a subclass could compute, or lie, when it is compared (HACKS.md class 29).
        if type(actual) is not torch.Tensor:
            return Kind.SHAPE, f"output {position} is a {type(actual).__name__}, expected a torch.Tensor"
        name = dtype_name(actual.dtype)
        if name != output.dtype:
            return Kind.DTYPE, f"output {position} is {name}, expected {output.dtype}"
        value = output.value
        if actual.shape != value.shape:
            shapes = f"{tuple(actual.shape)}, expected {tuple(value.shape)}"
            return Kind.SHAPE, f"output {position} has shape {shapes}"
        if actual.layout is not torch.strided:
            return Kind.SHAPE, f"output {position} has layout {actual.layout}, expected torch.strided"
        if actual.device != value.device:
            return Kind.SHAPE, f"output {position} is on {actual.device}, expected {value.device}"
    return None


def _count(number: int) -> str:
    return "1 output" if number == 1 else f"{number} outputs"
