"""What a correct kernel may return: the float64 result and a bound per element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Selection:
    """What an output of indices selects from; such indices are judged by the values they point at.

    scores: float64 (or integer) tensor; bound: its error per element, None where it is exact. dim: the axis of
    `scores` that the indices run along. largest: maxima are selected, else minima. keeps_dim: whether that axis
    is still there in the output (top-k, sort), or was reduced away (argmax). ordered: successive indices must
    be in order of their scores; complete: they must be a permutation of the axis (sort). stable: ties go by
    position.
    """

    scores: torch.Tensor
    bound: torch.Tensor | None
    dim: int
    largest: bool = True
    keeps_dim: bool = False
    ordered: bool = False
    complete: bool = False
    stable: bool = False


@dataclass(frozen=True)
class ExpectedOutput:
    """One output.

    value: float64 (or integer, bool) tensor. bound: float64 tensor of the same shape, the largest error delta a
    legitimate kernel may have before its final rounding; inf means "cannot be judged" (ORACLE.md section 3).
    For integer and bool outputs bound > 0 marks an element that a rounding may legitimately flip.
    dtype: storage dtype that the candidate must return. expects_nan: bool tensor, true where NaN comes from an
    input NaN; None where the value holds no NaN at all. selection: set where the output holds indices that were
    selected by comparing values (argmax, top-k, sort); `value` then is one admissible choice among others.
    """

    value: torch.Tensor
    bound: torch.Tensor
    dtype: str
    expects_nan: torch.Tensor | None = None
    selection: Selection | None = None


@dataclass(frozen=True)
class Expected:
    """All outputs of one case under one profile.

    generic: aten ops whose bound came from the generic rule (section 2.3 rule 9). infinite_input: some input
    held an infinity. problem: why the reference gave no answer, if it did not. permissions: what of the profile
    made a difference ("operand_rounding", "tf32", …), so that a tighter profile without it gives the same.
    """

    outputs: tuple[ExpectedOutput, ...]
    profile: str
    generic: tuple[str, ...] = ()
    infinite_input: bool = False
    problem: str | None = None
    permissions: tuple[str, ...] = ()
