"""What is wrong with selected indices, in words."""

from __future__ import annotations

from dataclasses import replace

import torch

from gpuemu.model.contract import NanPolicy
from gpuemu.model.expected import Selection
from gpuemu.oracle.selection import Assessment, assess, contains


def explain(actual: torch.Tensor, selection: Selection, position: int) -> str:
    """Why the index at a row-major position of the output is wrong, in terms of the scores."""
    found = assess(actual, selection, "propagate")
    row, column = divmod(int((selection.positions.reshape(-1) == position).nonzero()[0]), len(selection.ranks))
    index, length = int(found.indices[row, column]), selection.scores.shape[1]
    if not bool(found.valid[row, column]):
        return f"index {index} is outside 0 to {length - 1}"
    chosen = f"index {index} selects {_score(selection, row, index)}"
    rival = int(found.rival[row, column])
    due = f"{_score(selection, row, rival)} at {rival}"
    if bool(found.repeated[row, column]):
        return f"index {index} stands in the row twice"
    if bool(found.unstable[row, column]):
        return f"{chosen}, which also stands at a lower index; equal scores go by position"
    if selection.ranks == (0,):
        return f"{chosen}, the {'maximum' if selection.largest else 'minimum'} is {due}"
    rank = selection.ranks[column]
    if bool((found.indices[row] == rival).any()):
        return f"{chosen} at rank {rank}, before {due}"
    direction = "largest" if selection.largest else "smallest"
    return f"{chosen} at rank {rank} of the {direction}, where {due} is due"


def _score(selection: Selection, row: int, index: int) -> str:
    return f"{float(selection.scores[row, index]):.9g}"


def pattern(actual: torch.Tensor, selection: Selection, nan: NanPolicy = "report") -> str:
    """One sentence that names what all indices have in common, or ""."""
    found = assess(actual, selection, nan)
    if not bool((~found.inside).any()):
        return ""
    if not actual.is_floating_point():
        wide = actual.to(torch.int64)
        for step, word in ((1, "large"), (-1, "small")):
            if bool(contains(wide - step, selection, nan).all()):
                return f"every index is one too {word}"
    if bool(contains(actual, replace(selection, largest=not selection.largest), nan).all()):
        return f"the {'smallest are' if selection.largest else 'largest are'} selected instead"
    if len(selection.ranks) > 1 and bool(contains(actual, replace(selection, ordered=False), nan).all()):
        return "the right elements are selected, in the wrong order"
    return _common_fault(found)


def _common_fault(found: Assessment) -> str:
    wrong = ~found.inside
    for fault, sentence in (
        (~found.valid, "every wrong index is out of range"),
        (found.repeated, "every wrong index stands in its row twice"),
        (found.unstable, "only ties are wrong: equal scores go by position"),
    ):
        if bool((fault | ~wrong).all()):
            return sentence
    return ""
