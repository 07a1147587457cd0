"""Cross-entropy and rotary embedding: controls of other formulas, and the usual mistakes."""

from __future__ import annotations

import torch
from torch.nn import functional

from gpuemu.corpus.population.implementation import Function, Implementation, coarse, control, eager, mutant

Tensor = torch.Tensor
Pair = tuple[Tensor, Tensor]


def _reduce(losses: Tensor, counted: Tensor, reduction: str) -> Tensor:
    losses = torch.where(counted, losses, 0.0)
    if reduction == "none":
        return losses
    total = losses.sum()
    return total / counted.sum() if reduction == "mean" else total


def make_cross_entropy(log_sum: Function, count_ignored: bool = False, off: int = 0) -> Function:
    """log-sum-exp less the target's logit, smoothed and reduced.

    count_ignored: ignored rows count in a mean's divisor. off: added to each target.
    """

    def call(
        logits: Tensor, target: Tensor, ignore_index: int, reduction: str, label_smoothing: float
    ) -> Tensor:
        counted = target != ignore_index
        safe = (torch.where(counted, target, 0) + off).remainder(logits.shape[1])
        normaliser = log_sum(logits)
        picked = logits.gather(1, safe.unsqueeze(1)).squeeze(1)
        losses = normaliser - picked
        if label_smoothing:
            smooth = normaliser - logits.mean(1)
            losses = (1.0 - label_smoothing) * losses + label_smoothing * smooth
        if count_ignored and reduction == "mean":
            return torch.where(counted, losses, 0.0).sum() / counted.numel()
        return _reduce(losses, counted, reduction)

    return call


def log_sum_two_pass(x: Tensor) -> Tensor:
    largest = x.amax(1, keepdim=True)
    return (torch.exp(x - largest).sum(1, keepdim=True).log() + largest).squeeze(1)


def log_sum_online(x: Tensor) -> Tensor:
    largest = torch.full_like(x[:, 0], -torch.inf)
    total = torch.zeros_like(largest)
    for part in x.split(64, dim=1):
        new = torch.maximum(largest, part.amax(1))
        total = total * torch.exp(largest - new) + torch.exp(part - new.unsqueeze(1)).sum(1)
        largest = new
    return total.log() + largest


def log_sum_dropped(x: Tensor) -> Tensor:
    return torch.logsumexp(x[:, : max(x.shape[1] - 1, 1)], dim=1)


def eager_cross_entropy(
    logits: Tensor, target: Tensor, ignore_index: int, reduction: str, label_smoothing: float
) -> Tensor:
    return functional.cross_entropy(
        logits, target, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )


def without_smoothing(
    logits: Tensor,
    target: Tensor,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,  # noqa: ARG001 - the mutant's fault
) -> Tensor:
    return eager_cross_entropy(logits, target, ignore_index, reduction, 0.0)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def rotate_by_half(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x cos + rotate_half(x) sin, with tables of full width, as models write it."""
    first, second = x.chunk(2, dim=-1)
    return x * torch.cat((cos, cos), -1) + torch.cat((-second, first), -1) * torch.cat((sin, sin), -1)


def both(function: Function) -> Function:
    return lambda q, k, cos, sin: (function(q, cos, sin), function(k, cos, sin))


def rotate_wrong_sign(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos + second * sin, second * cos - first * sin), dim=-1)


def rotate_swapped(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((second * cos + first * sin, first * cos - second * sin), dim=-1)


def rotate_neighbours(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x[..., ::2], x[..., 1::2]
    return torch.stack((first * cos - second * sin, second * cos + first * sin), dim=-1).flatten(-2)


def rotate_next_position(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return rotate(x, cos.roll(1, 0), sin.roll(1, 0))


def only_queries(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Pair:
    return rotate(q, cos, sin), k.clone()


def coarse_rope(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Pair:
    table = (cos.bfloat16().float(), sin.bfloat16().float())
    return rotate(q.float(), *table).to(q.dtype), rotate(k.float(), *table).to(k.dtype)


def coarse_cross_entropy(
    logits: Tensor, target: Tensor, ignore_index: int, reduction: str, label_smoothing: float
) -> Tensor:
    rounded = make_cross_entropy(lambda x: log_sum_two_pass(x).bfloat16().float())
    return rounded(logits.float(), target, ignore_index, reduction, label_smoothing).to(logits.dtype)


IMPLEMENTATIONS: tuple[Implementation, ...] = (
    eager("cross_entropy", eager_cross_entropy, composed=True),
    control("cross_entropy", "float32", eager_cross_entropy),
    control("cross_entropy", "two_pass", make_cross_entropy(log_sum_two_pass)),
    control("cross_entropy", "online", make_cross_entropy(log_sum_online)),
    mutant(
        "cross_entropy",
        "next_target",
        make_cross_entropy(log_sum_two_pass, off=1),
        "L",
        "the target is off by one",
    ),
    mutant(
        "cross_entropy",
        "ignored_counted",
        make_cross_entropy(log_sum_two_pass, count_ignored=True),
        "J",
        "ignored rows count in the mean",
    ),
    mutant(
        "cross_entropy", "dropped_class", make_cross_entropy(log_sum_dropped), "A", "the last class is left out"
    ),
    mutant("cross_entropy", "no_smoothing", without_smoothing, "S", "label smoothing is forgotten"),
    mutant(
        "cross_entropy",
        "no_max",
        make_cross_entropy(lambda x: torch.exp(x).sum(1).log()),
        "I",
        "no maximum is subtracted",
    ),
    coarse("cross_entropy", "bfloat16_sum", coarse_cross_entropy, "the log-sum-exp is rounded to bfloat16"),
    eager("rope", both(rotate), composed=True),
    control("rope", "halves", both(rotate)),
    control("rope", "rotate_half", both(rotate_by_half)),
    mutant("rope", "wrong_sign", both(rotate_wrong_sign), "S", "turned the other way"),
    mutant("rope", "swapped", both(rotate_swapped), "L", "the halves are swapped"),
    mutant("rope", "neighbours", both(rotate_neighbours), "L", "neighbours are paired in place of halves"),
    mutant("rope", "next_position", both(rotate_next_position), "L", "the table is read one position off"),
    mutant("rope", "only_queries", only_queries, "F", "the keys are not turned"),
    coarse("rope", "bfloat16_table", coarse_rope, "the tables are rounded to bfloat16"),
)
