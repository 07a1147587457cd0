"""Further calls on the same inputs, compared bit by bit (ORACLE.md section 7).

What a difference in the values means, the oracle decides: an op need not promise the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gpuemu.model.observation import GuardFinding

NAME = "repeat"
_INTEGER_VIEW = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Bitwise equality of two tensors of one dtype and shape; equal NaNs count as equal."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return torch.equal(as_bits(a), as_bits(b))


def as_bits(tensor: torch.Tensor) -> torch.Tensor:
    """The elements' bit patterns as integers, in the tensor's shape."""
    view = _INTEGER_VIEW.get(tensor.element_size())
    if view is None:  # complex128
        return torch.view_as_real(tensor).view(torch.int64)
    return tensor.contiguous().view(view)


def all_same_bits(first: Sequence[torch.Tensor], again: Sequence[torch.Tensor]) -> bool:
    """Whether two calls gave the same outputs, bit by bit."""
    return len(first) == len(again) and all(same_bits(*pair) for pair in zip(first, again, strict=True))


def compare(first: Sequence[torch.Tensor], again: Sequence[torch.Tensor], call: int) -> GuardFinding | None:
    """The finding, if a further call differs in number, dtype, shape or device of its outputs.

    Args:
        call: 2 for the second call.
    """
    if len(first) != len(again):
        counts = f"the first call gave {len(first)} outputs, call {call} gave {len(again)}"
        return GuardFinding(NAME, counts)
    for position, (a, b) in enumerate(zip(first, again, strict=True)):
        for what in ("dtype", "shape", "device"):
            was, now = getattr(a, what), getattr(b, what)
            if was != now:
                shown = (tuple(was), tuple(now)) if what == "shape" else (was, now)
                text = f"output {position} has {what} {shown[0]} in the first call, {shown[1]} in call {call}"
                return GuardFinding(NAME, text)
    return None
