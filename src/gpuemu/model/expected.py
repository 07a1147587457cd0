"""What a correct kernel may return: the float64 result and a bound per element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class ExpectedOutput:
    """One output.

    value: float64 (or integer, bool) tensor. bound: float64 tensor of the same shape, the largest error delta a
    legitimate kernel may have before its final rounding; inf means "cannot be judged" (ORACLE.md section 3).
    For integer and bool outputs bound > 0 marks an element that a rounding may legitimately flip.
    dtype: storage dtype that the candidate must return. expects_nan: bool tensor, true where NaN comes from an
    input NaN; None where the value holds no NaN at all.
    """

    value: torch.Tensor
    bound: torch.Tensor
    dtype: str
    expects_nan: torch.Tensor | None = None


@dataclass(frozen=True)
class Expected:
    """All outputs of one case under one profile.

    generic: aten ops whose bound came from the generic rule (section 2.3 rule 9). infinite_input: some input
    held an infinity. problem: why the reference gave no answer, if it did not.
    """

    outputs: tuple[ExpectedOutput, ...]
    profile: str
    generic: tuple[str, ...] = ()
    infinite_input: bool = False
    problem: str | None = None
