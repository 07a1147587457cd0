"""A part of the batch, run alone, must give the same bits as within the batch, where the contract says so.

Production kernels choose how to split a reduction by the size of the batch, so this is no property of every
right kernel (ORACLE.md sections 5 and 7); it is checked only of dims that the contract names.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gpuemu.errors import OpDefinitionError
from gpuemu.model.observation import GuardFinding, Slice
from gpuemu.run.guards.repeat import as_bits

NAME = "batch_invariance"


def compare(outputs: Sequence[torch.Tensor], alone: Sequence[torch.Tensor], part: Slice) -> GuardFinding | None:
    """The finding, if an output of the part run alone differs from its place in the batch's output.

    Args:
        outputs: of the whole batch. alone: of `part.inputs`.

    Raises:
        OpDefinitionError: no output has an axis of the dim's size, so that there is nothing to compare.
    """
    if len(alone) != len(outputs):
        return GuardFinding(NAME, f"{part.describe()} gave {len(alone)} outputs, the batch {len(outputs)}")
    axes = [_find_axis(position, output, part) for position, output in enumerate(outputs)]
    if all(axis is None for axis in axes):
        shapes = ", ".join(str(tuple(output.shape)) for output in outputs)
        raise OpDefinitionError(
            f"contract.batch_invariant names {part.dim!r}, here {part.size}, but no output has an axis of that "
            f'size (shapes {shapes}); declare them, outputs=["{part.dim} …"], or drop the dim'
        )
    for position, (output, single, axis) in enumerate(zip(outputs, alone, axes, strict=True)):
        if axis is None:
            continue
        finding = _compare_output(position, output, single, axis, part)
        if finding is not None:
            return finding
    return None


def _find_axis(position: int, output: torch.Tensor, part: Slice) -> int | None:
    """The output's axis of the dim: the declared one, else the first of its size; None if it has none."""
    if part.output_axes:
        axis = part.output_axes[position] if position < len(part.output_axes) else None
        return axis if axis is not None and axis < output.dim() else None
    return next((axis for axis, size in enumerate(output.shape) if size == part.size), None)


def _compare_output(
    position: int, output: torch.Tensor, alone: torch.Tensor, axis: int, part: Slice
) -> GuardFinding | None:
    expected = (*output.shape[:axis], part.width, *output.shape[axis + 1 :])
    if not part.output_axes and alone.shape != expected:
        # Of several axes of that size the dim is the one that shrank.
        for other, size in enumerate(output.shape):
            shape = (*output.shape[:other], part.width, *output.shape[other + 1 :])
            if size == part.size and alone.shape == shape:
                axis, expected = other, shape
    if alone.shape != expected or alone.dtype != output.dtype:
        shown = f"{alone.dtype} {tuple(alone.shape)}, expected {output.dtype} {tuple(expected)}"
        return GuardFinding(NAME, f"{part.describe()} gives output {position} as {shown}")
    within = output.narrow(axis, part.start, part.width)
    different = as_bits(within) != as_bits(alone)
    count = int(different.sum())
    if not count:
        return None
    return GuardFinding(
        NAME,
        f"{part.describe()} gives other bits than within the batch in {count} of {alone.numel()} elements of "
        f"output {position}; the contract promises the same",
    )
