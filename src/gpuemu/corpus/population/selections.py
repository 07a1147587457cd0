"""Choices, orders and samples: controls of other algorithms and tie-breaking, and the usual mistakes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

from gpuemu.corpus.population.implementation import EAGER_16, Function, Implementation

Tensor = torch.Tensor
Pair = tuple[Tensor, Tensor]
BLOCK = 64


def wrong(op: str, name: str, function: Function, bug_class: str, bug: str) -> Implementation:
    """A mutant that returns its outputs in their own dtypes."""
    return Implementation(op, name, function, "mutant", bug=bug, bug_class=bug_class)


def argmax_from_the_end(x: Tensor) -> Tensor:
    """Of equal elements, the last."""
    return x.shape[-1] - 1 - x.flip(-1).argmax(-1)


def argmax_blocked(x: Tensor) -> Tensor:
    """The best of the blocks' best."""
    parts = [part.max(dim=-1) for part in x.split(BLOCK, dim=-1)]
    block = torch.stack([part.values for part in parts], -1).argmax(-1, keepdim=True)
    inside = torch.stack([part.indices for part in parts], -1).gather(-1, block)
    return (block * BLOCK + inside).squeeze(-1)


def argmax_block_local(x: Tensor) -> Tensor:
    return argmax_blocked(x) % BLOCK


def topk_by_sorting(x: Tensor, k: int) -> Pair:
    values, indices = x.sort(dim=-1, descending=True, stable=True)
    return values[..., :k].contiguous(), indices[..., :k].contiguous()


def topk_blocked(x: Tensor, k: int) -> Pair:
    """The best k of the blocks' best k, ties from the end."""
    values, indices = [], []
    for start, part in zip(range(0, x.shape[-1], BLOCK), x.split(BLOCK, dim=-1), strict=True):
        best = part.flip(-1).topk(min(k, part.shape[-1]), dim=-1)
        values.append(best.values)
        indices.append(start + part.shape[-1] - 1 - best.indices)
    best = torch.cat(values, -1).topk(k, dim=-1)
    return best.values, torch.cat(indices, -1).gather(-1, best.indices)


def topk_unsorted(x: Tensor, k: int) -> Pair:
    values, indices = x.topk(k, dim=-1)
    return values.flip(-1), indices.flip(-1)


def topk_repeated(x: Tensor, k: int) -> Pair:
    values, indices = x.topk(k, dim=-1)
    return values[..., :1].repeat(1, k), indices[..., :1].repeat(1, k)


def topk_off_by_one(x: Tensor, k: int) -> Pair:
    values, indices = x.topk(k, dim=-1)
    return values, (indices + 1) % x.shape[-1]


def topk_without_tail(x: Tensor, k: int) -> Pair:
    values, indices = x[..., : max(x.shape[-1] // BLOCK * BLOCK, k)].topk(k, dim=-1)
    return values, indices


def eager_sort(x: Tensor, descending: bool) -> Pair:
    values, indices = torch.sort(x, dim=-1, descending=descending)
    return values, indices


def sort_by_merging(x: Tensor, descending: bool) -> Pair:
    """Sorted from the other end, so that ties come out the other way round."""
    order = x.shape[-1] - 1 - x.flip(-1).argsort(dim=-1, descending=descending, stable=True)
    return x.gather(-1, order), order


def sort_ascending_only(x: Tensor, descending: bool) -> Pair:
    del descending
    return eager_sort(x, False)


def sort_without_last(x: Tensor, descending: bool) -> Pair:
    values, indices = eager_sort(x[..., :-1], descending)
    last = torch.full_like(indices[..., :1], x.shape[-1] - 1) if indices.numel() else x[..., -1:].long() * 0
    return torch.cat((values, x[..., -1:]), -1), torch.cat((indices, last), -1)


def sort_with_ranks(x: Tensor, descending: bool) -> Pair:
    """Where each element goes, instead of where each comes from."""
    values, indices = eager_sort(x, descending)
    return values, indices.argsort(-1)


def _uniform(x: Tensor, seed: int) -> Tensor:
    random = torch.Generator(x.device).manual_seed(seed)
    return torch.rand(x.shape, generator=random, device=x.device)


def make_dropout(rate: Callable[[float], float], scale: Callable[[float], float]) -> Function:
    """Dropout with that probability of keeping and that factor."""

    def call(x: Tensor, p: float, seed: int) -> Tensor:
        kept = _uniform(x, seed) < rate(p)
        return torch.where(kept, x.float() * scale(p), 0.0).to(x.dtype)

    return call


def keep(p: float) -> float:
    return 1.0 - p


def inverse(p: float) -> float:
    return 1.0 / (1.0 - p) if p < 1.0 else 1.0


def eager_dropout(x: Tensor, p: float, seed: int) -> Tensor:
    torch.manual_seed(seed)
    return functional.dropout(x, p) if p > 0.0 else x.clone()  # for p = 0 it gives its input back


def sample_gumbel(logits: Tensor, seed: int) -> Tensor:
    """The largest of the logits with Gumbel noise (Maddison et al., arXiv 1411.0030)."""
    noise = -torch.log(-torch.log(_uniform(logits, seed).clamp(2.0**-25, 1.0 - 2.0**-24)))
    return (logits.float() + noise).argmax(-1)


def sample_inverse(logits: Tensor, seed: int) -> Tensor:
    """The first index at which the cumulated probability exceeds a uniform number."""
    cumulated = torch.softmax(logits.float(), -1).cumsum(-1)
    draws = _uniform(logits[:, :1], seed) * cumulated[:, -1:]
    return (cumulated <= draws).sum(-1).clamp(max=logits.shape[-1] - 1)


def sample_greedy(logits: Tensor, seed: int) -> Tensor:
    del seed
    return logits.argmax(-1)


def sample_truncated(logits: Tensor, seed: int) -> Tensor:
    top = logits.topk(max(logits.shape[-1] // 2, 1), dim=-1)
    return top.indices.gather(-1, sample_gumbel(top.values, seed).unsqueeze(-1)).squeeze(-1)


IMPLEMENTATIONS = (
    Implementation("argmax", "eager", lambda x: torch.argmax(x, -1)),
    Implementation("argmax", "from_the_end", argmax_from_the_end),
    Implementation("argmax", "blocked", argmax_blocked),
    wrong("argmax", "off_by_one", lambda x: (x.argmax(-1) + 1) % x.shape[-1], "A", "index one too large"),
    wrong("argmax", "smallest", lambda x: x.argmin(-1), "C", "the minimum instead of the maximum"),
    wrong("argmax", "block_local", argmax_block_local, "B", "index within its block of 64"),
    wrong(
        "argmax", "unmasked_tail", lambda x: functional.pad(x, (0, 1)).argmax(-1), "A", "a zero past the row"
    ),
    Implementation("topk", "eager", lambda x, k: tuple(torch.topk(x, k, dim=-1))),
    Implementation("topk", "sorted", topk_by_sorting),
    Implementation("topk", "blocked", topk_blocked),
    wrong("topk", "unsorted", topk_unsorted, "C", "ascending instead of descending"),
    wrong("topk", "repeated", topk_repeated, "D", "the largest k times: it is not masked out once found"),
    wrong("topk", "off_by_one", topk_off_by_one, "A", "indices one too large beside the right values"),
    wrong("topk", "without_tail", topk_without_tail, "A", "the last partial block is not looked at"),
    Implementation("sort", "eager", eager_sort),
    Implementation("sort", "from_the_end", sort_by_merging),
    wrong("sort", "ascending_only", sort_ascending_only, "C", "the flag is ignored"),
    wrong("sort", "without_last", sort_without_last, "A", "the last element stays where it is"),
    wrong("sort", "ranks", sort_with_ranks, "C", "the inverse permutation"),
    Implementation(
        "dropout", "eager", eager_dropout, profiles=EAGER_16, reason="torch rounds the factor 1 / (1 - p)"
    ),
    Implementation("dropout", "threshold", make_dropout(keep, inverse)),
    wrong("dropout", "unscaled", make_dropout(keep, lambda _: 1.0), "C", "what is kept is not scaled up"),
    wrong("dropout", "scaled_by_p", make_dropout(keep, lambda p: 1.0 / p if p else 1.0), "C", "1 / p"),
    wrong("dropout", "rate", make_dropout(lambda p: (1.0 - p) ** 2, inverse), "C", "keeps (1 - p)^2"),
    wrong("dropout", "never", make_dropout(lambda _: 1.0, inverse), "C", "drops nothing"),
    Implementation("sample", "gumbel", sample_gumbel),
    Implementation("sample", "inverse", sample_inverse),
    wrong("sample", "greedy", sample_greedy, "C", "always the likeliest"),
    wrong(
        "sample", "temperature", lambda logits, seed: sample_gumbel(logits * 0.5, seed), "C", "temperature 2"
    ),
    wrong("sample", "truncated", sample_truncated, "C", "only the likelier half of the indices"),
    wrong("sample", "uniform", lambda logits, seed: sample_gumbel(logits * 0, seed), "C", "logits ignored"),
    wrong(
        "sample",
        "off_by_one",
        lambda logits, seed: (sample_inverse(logits, seed) + 1) % logits.shape[-1],
        "A",
        "index one too large",
    ),
)
