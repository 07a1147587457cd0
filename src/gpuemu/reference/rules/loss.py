"""Losses that torch fuses."""

from __future__ import annotations

from typing import Any

import torch

from gpuemu.reference.registry import Call, rule

NONE, MEAN, SUM = 0, 1, 2  # aten's codes of the reduction


@rule("nll_loss_forward", "nll_loss2d_forward")
def negative_log_likelihood(call: Call) -> Any:
    """(log-probabilities, target, weight, reduction, ignore_index): the loss and the total weight.

    Ignored targets count 0; a mean divides by the total weight of the others.
    """
    scores, target, weight, reduction, ignored = call.args
    scores = call.follow(scores)
    classes = 1 if scores.dim() > 1 else 0
    counts = target != ignored
    safe = torch.where(counts, target, torch.zeros_like(target))
    picked = -scores.gather(classes, safe.unsqueeze(classes)).squeeze(classes)
    if weight is None:
        share = call.make(counts.double())
    else:
        weights = call.follow(weight).index_select(0, safe.reshape(-1)).reshape(safe.shape)
        share = weights.masked_fill(~counts, 0.0)
        picked = picked * share
    picked = picked.masked_fill(~counts, 0.0)
    total = share.sum()
    if reduction == NONE:
        return picked, total
    if reduction == SUM:
        return picked.sum(), total
    return picked.sum() / total, total


@rule("mse_loss")
def mean_squared_error(call: Call) -> Any:
    """(x - y)^2, reduced."""
    difference = call.follow(call.args[0]) - call.follow(call.args[1])
    return reduce_loss(difference * difference, call.argument(2, "reduction", MEAN))


@rule("smooth_l1_loss")
def smooth_l1(call: Call) -> Any:
    """d^2 / (2 beta) below beta, d - beta / 2 above."""
    distance = (call.follow(call.args[0]) - call.follow(call.args[1])).abs()
    beta, loss = call.argument(3, "beta", 1.0), distance
    if beta:
        loss = torch.where(distance < beta, distance * distance * 0.5 / beta, distance - 0.5 * beta)
    return reduce_loss(loss, call.argument(2, "reduction", MEAN))


@rule("huber_loss")
def huber(call: Call) -> Any:
    """d^2 / 2 below delta, delta (d - delta / 2) above."""
    distance = (call.follow(call.args[0]) - call.follow(call.args[1])).abs()
    delta = call.argument(3, "delta", 1.0)
    loss = torch.where(distance < delta, distance * distance * 0.5, (distance - 0.5 * delta) * delta)
    return reduce_loss(loss, call.argument(2, "reduction", MEAN))


@rule("binary_cross_entropy_with_logits")
def binary_cross_entropy(call: Call) -> Any:
    """(1 - y) x + (1 + (p - 1) y) softplus(-x), weighted and reduced."""
    x, y = call.follow(call.args[0]), call.follow(call.args[1])
    weight, positive = call.argument(2, "weight"), call.argument(3, "pos_weight")
    softplus = torch.nn.functional.softplus(-x)
    if positive is not None:
        softplus = softplus * ((call.follow(positive) - 1.0) * y + 1.0)
    loss = (1.0 - y) * x + softplus
    loss = loss if weight is None else loss * call.follow(weight)
    return reduce_loss(loss, call.argument(4, "reduction", MEAN))


def reduce_loss(loss: Any, reduction: int) -> Any:
    """aten's reduction codes."""
    return loss.mean() if reduction == MEAN else loss.sum() if reduction == SUM else loss
