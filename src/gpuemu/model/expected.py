"""What a correct kernel may return: the float64 result and a bound per element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Selection:
    """What an output of indices selects from; such indices are judged by the scores that they point at.

    scores: (rows, length), float64 or integer: each row is selected from on its own. bound: their error, None
    where they are exact. positions: (rows, count), where in the output (row-major) the indices of each row
    stand, in order of rank. ranks: the ranks that they hold, ascending: (0,) for argmax, 0 to k - 1 for top-k.
    largest: rank 0 is the maximum, else the minimum. ordered: successive indices are in order of their scores,
    else the ranks are those of a set (top-k with sorted=False). stable: equal scores go by position. nan_first:
    NaN comes before every number, else after. expects_nan: (rows, length), which scores are NaN because an
    input is; None where none is NaN. values: number of the output that holds the scores selected, if one does.
    """

    scores: torch.Tensor
    bound: torch.Tensor | None
    positions: torch.Tensor
    ranks: tuple[int, ...] = (0,)
    largest: bool = True
    ordered: bool = True
    stable: bool = False
    nan_first: bool = True
    expects_nan: torch.Tensor | None = None
    values: int | None = None


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
    rejection: kind and message, where the outputs that the expectation was made for are wrong whatever their
    values are: a random decision at the wrong rate. The outputs then are outlines, only good for their shapes.
    """

    outputs: tuple[ExpectedOutput, ...]
    profile: str
    generic: tuple[str, ...] = ()
    infinite_input: bool = False
    problem: str | None = None
    permissions: tuple[str, ...] = ()
    rejection: tuple[str, str] | None = None
