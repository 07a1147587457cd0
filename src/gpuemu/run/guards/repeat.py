"""A second call on the same inputs must give the same bits (ORACLE.md section 7)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gpuemu.model.observation import GuardFinding

_INTEGER_VIEW = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Bitwise equality of two tensors of one dtype and shape; equal NaNs count as equal."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    view = _INTEGER_VIEW[a.element_size()]
    return torch.equal(a.contiguous().view(view), b.contiguous().view(view))


def compare(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> GuardFinding | None:
    """The finding, if the two calls differ in number of outputs or in any bit."""
    if len(first) != len(second):
        return GuardFinding("repeat", f"the first call gave {len(first)} outputs, the second {len(second)}")
    for position, (a, b) in enumerate(zip(first, second, strict=True)):
        if not same_bits(a, b):
            return GuardFinding("repeat", f"output {position} differs between two calls on the same inputs")
    return None
