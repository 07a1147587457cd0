"""Whether counts of random events are what their probabilities say: exact binomial tails.

All tests are made at one level per case, so low that a campaign of a million cases has no false alarm.
"""

from __future__ import annotations

import math

import torch

LEVEL = 1e-9
# Classes nearer to their mean than this many standard deviations (and one count) are not worth an exact test.
_NEAR = 4.0
_NEGLIGIBLE = 1e-18
_HALVES = ("an index of the less likely half", "an index of the more likely half")


def binomial_tail(count: int, trials: int, probability: float) -> float:
    """P(X <= count) or P(X >= count), whichever side of the mean the count lies on, X ~ B(trials, probability).

    The terms of the tail are summed outwards from `count`, where they only get smaller.
    """
    if probability in (0.0, 1.0):
        return 1.0 if count == trials * probability else 0.0
    below = count <= trials * probability
    odds = probability / (1.0 - probability)
    term = math.exp(
        math.lgamma(trials + 1)
        - math.lgamma(count + 1)
        - math.lgamma(trials - count + 1)
        + count * math.log(probability)
        + (trials - count) * math.log1p(-probability)
    )
    total, k = 0.0, count
    while 0 <= k <= trials and term > _NEGLIGIBLE * total:
        total += term
        term *= k / ((trials - k + 1) * odds) if below else (trials - k) * odds / (k + 1)
        k += -1 if below else 1
    return min(total, 1.0)


def rate_objection(chosen: torch.Tensor, among: torch.Tensor | None, rate: float, name: str) -> str:
    """Why a random mask does not have the share of true elements that it should; "" if it may have.

    Args:
        chosen: bool tensor. among: bool tensor of its shape, the elements that count; None: every one.

    One mask for every row is no fault: decisions that never differ along a leading axis count once.
    """
    chosen, among = _distinct(chosen, among)
    trials = chosen.numel() if among is None else int(among.sum())
    count = int(chosen.sum()) if among is None else int((chosen & among).sum())
    if not trials or 2.0 * binomial_tail(count, trials, rate) >= LEVEL:
        return ""
    return (
        f"{name}: {count} of {trials} random decisions are true, a share of {count / trials:.6g} where the "
        f"rate is {rate:.6g}; at that rate, or if they are independent, a chance below {LEVEL:g}"
    )


def _distinct(chosen: torch.Tensor, among: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The decisions without their repetitions along axes, but the last with any, on which none ever differs."""
    last = max((axis for axis, size in enumerate(chosen.shape) if size > 1), default=0)
    for axis in range(last):
        if chosen.shape[axis] < 2:
            continue
        if among is None:
            first = chosen.narrow(axis, 0, 1)
            if bool((chosen == first).all()):
                chosen = first
            continue
        some = (chosen & among).any(dim=axis, keepdim=True)
        every = (chosen | ~among).all(dim=axis, keepdim=True)
        if bool((~some | every).all()):
            chosen, among = some, among.any(dim=axis, keepdim=True)
    return chosen, among


def choice_objection(choices: torch.Tensor, probabilities: torch.Tensor, name: str) -> str:
    """Why sampled indices do not follow their probabilities; "" if they may.

    Args:
        choices: integer tensor. probabilities: float64, of its shape with an axis of V more; rows that are no
            distribution (NaN) are left out.

    Counted over all rows are the choices of every index, of every rank by probability (the likeliest, the
    second, …), and of those that together hold the upper half of a row's probability. Each count is a sum of
    independent events of unequal probability, whose tails beyond the mean +- 1 are below those of the binomial
    distribution of the mean probability (Hoeffding, Ann. Math. Statist. 27, 1956, theorem 4). The level is
    shared among all counts (Bonferroni).
    """
    size = probabilities.shape[-1]
    flat, table = choices.reshape(-1).to(torch.int64), probabilities.reshape(-1, size).double()
    outside = (flat < 0) | (flat >= size)
    if bool(outside.any()):
        return f"{name}: index {int(flat[outside][0])} is outside 0 to {size - 1}"
    known = table.isfinite().all(dim=1) & (table.sum(dim=1) > 0.0)
    flat, table = flat[known], table[known]
    if not flat.numel():
        return ""
    table = table / table.sum(dim=1, keepdim=True)
    ordered, order = table.sort(dim=1, descending=True, stable=True)
    ranks = order.argsort(dim=1).gather(1, flat[:, None])
    upper = ordered.cumsum(dim=1) - ordered < 0.5
    halves = torch.stack(((ordered * ~upper).sum(dim=1), (ordered * upper).sum(dim=1)), dim=1)
    counts = (
        (upper.gather(1, ranks)[:, 0].long(), halves, ""),
        (ranks[:, 0], ordered, "the index of rank {} by probability"),
        (flat, table, "index {}"),
    )
    for chosen, expected, what in counts:
        unlikely = _unlikely_count(chosen, expected, LEVEL / (len(counts) * expected.shape[1]))
        if unlikely is not None:
            which, count, mean = unlikely
            named = what.format(which) if expected is not halves else _HALVES[which]
            return (
                f"{name}: {named} is chosen {count} times in {flat.numel()} draws, expected {mean:.6g}; "
                f"a chance below {LEVEL:g} for independent draws"
            )
    return ""


def _unlikely_count(chosen: torch.Tensor, table: torch.Tensor, level: float) -> tuple[int, int, float] | None:
    """(index, count, expected count) of the first index that is chosen impossibly often or seldom."""
    trials, size = table.shape
    counts = torch.bincount(chosen, minlength=size).double()
    means = table.sum(dim=0)
    spread = (means * (1.0 - means / trials)).clamp(min=0.0).sqrt()
    far = ((counts - means).abs() >= torch.clamp(_NEAR * spread, min=1.0 - 1e-9)) | (
        (means == 0) & (counts > 0)
    )
    for index in far.nonzero()[:, 0].tolist():
        probability = min(float(means[index]) / trials, 1.0)
        if 2.0 * binomial_tail(int(counts[index]), trials, probability) < level:
            return index, int(counts[index]), float(means[index])
    return None
