"""Losses that torch fuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from gpuemu.reference.registry import rule
from gpuemu.reference.rules.normalisation import follow

if TYPE_CHECKING:
    from gpuemu.reference.dispatch import Evaluation

NONE, MEAN, SUM = 0, 1, 2  # aten's codes of the reduction


@rule("nll_loss_forward", "nll_loss2d_forward")
def negative_log_likelihood(
    evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """(log-probabilities, target, weight, reduction, ignore_index): the loss and the total weight.

    Ignored targets count 0; a mean divides by the total weight of the others.
    """
    scores, target, weight, reduction, ignored = args
    scores = follow(evaluation, scores)
    classes = 1 if scores.dim() > 1 else 0
    counts = target != ignored
    safe = torch.where(counts, target, torch.zeros_like(target))
    picked = -scores.gather(classes, safe.unsqueeze(classes)).squeeze(classes)
    if weight is None:
        share = evaluation.make(counts.double())
    else:
        weights = follow(evaluation, weight).index_select(0, safe.reshape(-1)).reshape(safe.shape)
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
def mean_squared_error(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """(x - y)^2, reduced."""
    difference = follow(evaluation, args[0]) - follow(evaluation, args[1])
    return reduce_loss(difference * difference, args[2] if len(args) > 2 else MEAN)


@rule("smooth_l1_loss", "huber_loss")
def smooth_l1(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """d^2 / 2 below a threshold, linear above; smooth_l1 is huber divided by the threshold."""
    x, y, reduction, threshold = (*args, *(MEAN, 1.0)[len(args) - 2 :])[:4]
    distance = (follow(evaluation, x) - follow(evaluation, y)).abs()
    if func is torch.ops.aten.huber_loss.default:
        loss = torch.where(
            distance < threshold, distance * distance * 0.5, (distance - 0.5 * threshold) * threshold
        )
    elif threshold == 0:
        loss = distance
    else:
        loss = torch.where(
            distance < threshold, distance * distance * 0.5 / threshold, distance - 0.5 * threshold
        )
    return reduce_loss(loss, reduction)


@rule("binary_cross_entropy_with_logits")
def binary_cross_entropy(
    evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """(1 - y) x + (1 + (p - 1) y) softplus(-x), weighted and reduced."""
    x, y, weight, positive, reduction = (*args, *(None, None, MEAN)[len(args) - 2 :])[:5]
    x, y = follow(evaluation, x), follow(evaluation, y)
    softplus = torch.nn.functional.softplus(-x)
    factor = 1.0 if positive is None else (follow(evaluation, positive) - 1.0) * y + 1.0
    loss = (1.0 - y) * x + softplus * factor
    return reduce_loss(loss if weight is None else loss * follow(evaluation, weight), reduction)


def reduce_loss(loss: Any, reduction: int) -> Any:
    """aten's reduction codes."""
    return loss.mean() if reduction == MEAN else loss.sum() if reduction == SUM else loss
