"""Indices judged by the scores that they point at, never by themselves (ORACLE.md section 2.5).

A legitimate kernel orders scores that are each within the bound of the exact one. So an order is legitimate if
and only if no element comes before one whose score is larger for certain: low_j > high_i, where [low, high] is
the interval of a score. (If none does, scores that give this order exist: each the least upper end so far.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from gpuemu.model.contract import NanPolicy
from gpuemu.model.expected import ExpectedOutput, Selection

Tensor = torch.Tensor
_JUST_ABOVE_ONE = math.nextafter(1.0, 2.0)
# Numbers are kept below this in rows that hold a NaN, which then stands at infinity, beyond all of them.
_BELOW_NAN = 2.0**1022


@dataclass(frozen=True)
class Assessment:
    """Every index of an output, as (rows, count) in order of rank.

    indices: as returned. valid: within the row. at: the index, 0 where it is not valid. inside: acceptable.
    rival: which element of the row should rather stand here (where `outranked`), else some element. repeated:
    the same index stands earlier in the row. unstable: an equal score of lower position should stand here.
    distance: how far the rival's score exceeds the chosen one; allowed: the sum of their bounds.
    swallowed: elements that are acceptable only because a NaN among the scores may be ignored.
    """

    indices: Tensor
    valid: Tensor
    at: Tensor
    inside: Tensor
    rival: Tensor
    repeated: Tensor
    unstable: Tensor
    distance: Tensor
    allowed: Tensor
    swallowed: int

    @property
    def score(self) -> Tensor:
        """Distance in units of what is allowed: at most 1 exactly where the index is acceptable."""
        ratio = (self.distance / self.allowed).nan_to_num(nan=0.0, posinf=torch.inf).clamp(min=0.0)
        hard = ~self.valid | self.repeated | self.unstable
        failing = torch.where(hard, torch.inf, ratio.clamp(min=_JUST_ABOVE_ONE))
        return torch.where(self.inside, ratio.clamp(max=1.0), failing)


def contains(actual: Tensor, selection: Selection, nan: NanPolicy = "report") -> Tensor:
    """Whether each index of `actual` is acceptable: a bool tensor of its shape."""
    return _scattered(assess(actual, selection, nan).inside, selection).view(actual.shape)


def judged(selection: Selection) -> int:
    """How many indices are judged: those of rows in which the score of some element is known."""
    high, low, _ = _intervals(selection)
    if not high.is_floating_point():
        return selection.positions.numel()
    known = (high < torch.inf) | (low > -torch.inf)
    return int(known.any(dim=1).sum()) * selection.positions.shape[1]


def assess(actual: Tensor, selection: Selection, nan: NanPolicy = "report") -> Assessment:
    """Judge every index. `actual` may hold anything: what is no index of its row is not valid.

    nan: under "propagate" NaN stands where the reference's library has it; else a row that holds one, because
    an input does, may be ordered in any way.
    """
    high, low, with_nan = _intervals(selection)
    indices, valid, at = _read(actual, selection)
    repeated = _repeated(indices, selection.scores.shape[1])
    outranked, rival = _outranked(selection, high, low, at, valid)
    unstable = _unstable(selection, at, valid)
    inside, swallowed = valid & ~repeated & ~outranked & ~unstable, 0
    if with_nan is not None and nan != "propagate":
        swallowed = int((with_nan & ~inside).sum())
        inside = torch.where(with_nan, valid, inside)
    chosen, better = _gather(selection, at), _gather(selection, rival)
    distance = torch.where(chosen[0] == better[0], 0.0, better[0] - chosen[0])
    if not selection.largest:
        distance = -distance
    if not _is_prefix(selection):
        distance = distance.abs()
    return Assessment(
        indices, valid, at, inside, rival, repeated, unstable, distance, chosen[1] + better[1], swallowed
    )


def _read(actual: Tensor, selection: Selection) -> tuple[Tensor, Tensor, Tensor]:
    """The indices by rows, whether each is one of its row, and the index, 0 where it is not."""
    indices = _to_integers(actual).reshape(-1)[selection.positions]
    valid = (indices >= 0) & (indices < selection.scores.shape[1])
    return indices, valid, torch.where(valid, indices, 0)


def _to_integers(actual: Tensor) -> Tensor:
    """The indices as int64; -1 for what is no integer."""
    if not actual.is_floating_point():
        return actual.to(torch.int64)
    wide = actual.double()
    is_integer = (wide == wide.floor()) & (wide.abs() < 2.0**53)
    return torch.where(is_integer, wide, -1.0).to(torch.int64)


def _gather(selection: Selection, at: Tensor) -> tuple[Tensor, Tensor]:
    """Score and error of chosen elements, in float64."""
    score = selection.scores.gather(1, at).double()
    error = torch.zeros_like(score) if selection.bound is None else selection.bound.gather(1, at)
    return score, error


def _intervals(selection: Selection) -> tuple[Tensor, Tensor, Tensor | None]:
    """(high, low) of every score, turned so that larger comes first, and which rows hold a NaN that is due.

    A score about which nothing is known reaches from -inf to inf. Integers stay integers.
    """
    scores, bound = selection.scores, selection.bound
    if not scores.is_floating_point():
        whole = scores.to(torch.int64)
        whole = whole if selection.largest else ~whole
        return whole, whole, None
    scores = scores if selection.largest else -scores
    high = low = scores
    known = torch.ones_like(scores, dtype=torch.bool) if bound is None else bound < torch.inf
    if bound is not None:
        high, low = (
            torch.where(known, scores + bound, torch.inf),
            torch.where(known, scores - bound, -torch.inf),
        )
    nan = scores.isnan()
    if not bool(nan.any()):
        return high, low, None
    due = torch.zeros_like(nan) if selection.expects_nan is None else nan & selection.expects_nan & known
    place = torch.inf if selection.nan_first else -torch.inf
    tame = (torch.where(known, end.clamp(-_BELOW_NAN, _BELOW_NAN), end) for end in (high, low))
    high, low = (end.masked_fill(due, place) for end in tame)
    unknown, rows = nan & ~due, due.any(dim=1, keepdim=True)
    high, low = high.masked_fill(unknown, torch.inf), low.masked_fill(unknown, -torch.inf)
    return high, low, rows if bool(rows.any()) else None


def _is_prefix(selection: Selection) -> bool:
    return selection.ranks == tuple(range(len(selection.ranks)))


def _repeated(indices: Tensor, length: int) -> Tensor:
    """Whether the same index stands earlier in the row."""
    counts = torch.zeros((indices.shape[0], length + 1), dtype=torch.int32, device=indices.device)
    at = torch.where((indices >= 0) & (indices < length), indices, length)
    counts.scatter_add_(1, at, torch.ones_like(at, dtype=torch.int32))
    if not bool((counts[:, :length] > 1).any()):
        return torch.zeros_like(indices, dtype=torch.bool)
    ordered, origin = indices.sort(dim=1, stable=True)
    same = torch.zeros_like(indices, dtype=torch.bool)
    same[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return torch.zeros_like(same).scatter(1, origin, same)


def _outranked(
    selection: Selection, high: Tensor, low: Tensor, at: Tensor, valid: Tensor
) -> tuple[Tensor, Tensor]:
    """Whether an index stands where it cannot, and an element that could stand there."""
    lowest = -torch.inf if low.is_floating_point() else torch.iinfo(low.dtype).min
    chosen_low = low.gather(1, at).masked_fill(~valid, lowest)
    chosen_high = high.gather(1, at)
    if _is_prefix(selection):
        left = low.clone().scatter_(1, at, torch.where(valid, lowest, low.gather(1, at)))
        best, rival = left.max(dim=1, keepdim=True)
        best, rival = best.expand_as(at), rival.expand_as(at)
    else:
        best = torch.full_like(chosen_low, lowest)
        rival = at
    if selection.ordered and at.shape[1] > 1:
        later, which = (t.flip(1) for t in chosen_low.flip(1).cummax(dim=1))
        later = torch.cat((later[:, 1:], torch.full_like(later[:, :1], lowest)), 1)
        which = at.shape[1] - 1 - torch.cat((which[:, 1:], which[:, -1:]), 1)
        rival = torch.where(later > best, at.gather(1, which), rival)
        best = torch.maximum(later, best)
    rival = torch.where(best > lowest, rival, at)  # nothing is left that could stand here
    outranked = chosen_high < best
    if not _is_prefix(selection):
        misplaced, due = _misplaced(selection, high, low, chosen_high, chosen_low)
        rival = torch.where(misplaced | ~outranked, due, rival)
        outranked |= misplaced
    return outranked & valid, rival


def _misplaced(
    selection: Selection, high: Tensor, low: Tensor, chosen_high: Tensor, chosen_low: Tensor
) -> tuple[Tensor, Tensor]:
    """Whether more elements lie above, or below, than the rank leaves room for; and who is due there."""
    length = low.shape[1]
    ranks = torch.tensor(selection.ranks, device=low.device)
    above = length - torch.searchsorted(low.sort(dim=1)[0], chosen_high.contiguous(), right=True)
    below = torch.searchsorted(high.sort(dim=1)[0], chosen_low.contiguous())
    misplaced = (above > ranks) | (below > length - 1 - ranks)
    return misplaced, ((high.double() + low.double()).argsort(dim=1, descending=True))[:, ranks]


def _unstable(selection: Selection, at: Tensor, valid: Tensor) -> Tensor:
    """Whether an exactly equal score of a lower position was passed over; false where no order is promised."""
    unstable = torch.zeros_like(valid)
    if not selection.stable:
        return unstable
    score, error = _gather(selection, at)
    exact = valid & (error == 0)
    if selection.ordered and at.shape[1] > 1:
        same = (score[:, 1:] == score[:, :-1]) & exact[:, 1:] & exact[:, :-1]
        unstable[:, 1:] |= same & (at[:, 1:] < at[:, :-1])
    if _is_prefix(selection):
        scores = selection.scores
        last = scores.gather(1, at[:, -1:])
        tied = scores == last
        if selection.bound is not None:
            tied &= selection.bound == 0
        tied = tied.scatter(1, at, torch.where(valid, False, tied.gather(1, at)))
        first = torch.where(tied.any(dim=1), tied.to(torch.uint8).argmax(dim=1), scores.shape[1])
        unstable |= exact & (score == last) & (at > first[:, None])
    return unstable


def _scattered(values: Tensor, selection: Selection) -> Tensor:
    """(rows, count) values in the row-major order of the output."""
    flat = torch.empty(values.numel(), dtype=values.dtype, device=values.device)
    flat[selection.positions.reshape(-1)] = values.reshape(-1)
    return flat


def at_choices(indices: Tensor, values: ExpectedOutput, selection: Selection) -> ExpectedOutput:
    """The output of selected scores as it should be beside a candidate's own indices.

    Where an index is not valid, or points at NaN, nothing is expected.
    """
    _, valid, at = _read(indices, selection)
    score, error = _gather(selection, at)
    error = torch.where(valid & ~score.isnan(), error, torch.inf)
    shape = values.value.shape
    value, bound = (_scattered(part, selection).view(shape) for part in (score, error))
    if not values.value.is_floating_point():
        value = value.to(values.value.dtype)
    return replace(values, value=value, bound=bound, expects_nan=None)


def scale(selection: Selection, constant: float) -> Selection:
    """Every score's bound times a constant."""
    return selection if selection.bound is None else replace(selection, bound=selection.bound * constant)


def widen(selection: Selection, own: Selection | None) -> Selection:
    """Add what float64 itself loses in the scores (section 12.7)."""
    if own is None or own.bound is None or own.bound.shape != selection.scores.shape:
        return selection
    bound = torch.zeros_like(own.bound) if selection.bound is None else selection.bound
    return replace(selection, bound=bound + own.bound)


def coarsen(selection: Selection, factor: float, share: float) -> Selection:
    """Generic bounds as far as they may convict: `factor` times, and not below a share of the row's largest."""
    if not selection.scores.is_floating_point() or selection.bound is None:
        return selection
    magnitude = selection.scores.abs().nan_to_num(nan=0.0, posinf=0.0).amax(1, keepdim=True)
    return replace(selection, bound=torch.maximum(selection.bound * factor, magnitude * share))
