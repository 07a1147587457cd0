"""Softmax and normalisations over the last axis: controls of several algorithms, and the usual mistakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from gpuemu.corpus.population.implementation import (
    WRONG_ON_CUDA,
    Function,
    Implementation,
    coarse,
    control,
    eager,
    mutant,
    truncated,
)

Tensor = torch.Tensor
LOG2_E = 1.4426950408889634
EPS = 1e-5
L2_EPS = 1e-12
BLOCK = 32


def blocks(x: Tensor, size: int = BLOCK) -> tuple[Tensor, ...]:
    """The row in tiles, as a looping kernel reads it."""
    return x.split(size, dim=-1)


def summed_in_blocks(x: Tensor, size: int = BLOCK) -> Tensor:
    """A row sum tile by tile, one accumulator after another."""
    total = torch.zeros_like(x[..., :1])
    for part in blocks(x, size):
        total = total + part.sum(-1, keepdim=True)
    return total


def summed_backwards(x: Tensor) -> Tensor:
    return x.flip(-1).cumsum(-1)[..., -1:]


# --- softmax -------------------------------------------------------------------------------------------------


def softmax_naive(x: Tensor) -> Tensor:
    weights = torch.exp(x - x.amax(-1, keepdim=True))
    return weights / weights.sum(-1, keepdim=True)


def softmax_exp2(x: Tensor) -> Tensor:
    scaled = x * LOG2_E
    weights = torch.exp2(scaled - scaled.amax(-1, keepdim=True))
    return weights * (1.0 / summed_in_blocks(weights))


def softmax_online(x: Tensor, rescale: bool = True) -> Tensor:
    """One pass with a running maximum and a rescaled denominator (Milakov and Gimelshein, arXiv 1805.02867)."""
    largest = torch.full_like(x[..., :1], -torch.inf)
    total = torch.zeros_like(largest)
    for part in blocks(x):
        new = torch.maximum(largest, part.amax(-1, keepdim=True))
        shift = torch.where(new == -torch.inf, 0.0, new)
        before = total * torch.exp(largest - shift) if rescale else total
        total = before + torch.exp(part - shift).sum(-1, keepdim=True)
        largest = new
    return torch.exp(x - largest) / total


def softmax_backwards(x: Tensor) -> Tensor:
    weights = torch.exp(x - x.amax(-1, keepdim=True))
    return weights / summed_backwards(weights)


def padded(x: Tensor, value: float) -> Tensor:
    """The row filled up to whole tiles."""
    return functional.pad(x, (0, -x.shape[-1] % BLOCK), value=value)


def softmax_zero_padding(x: Tensor) -> Tensor:
    return softmax_naive(padded(x, 0.0))[..., : x.shape[-1]]


def softmax_first_block_max(x: Tensor) -> Tensor:
    weights = torch.exp(x - x[..., :BLOCK].amax(-1, keepdim=True))
    return weights / weights.sum(-1, keepdim=True)


def softmax_dropped_last(x: Tensor) -> Tensor:
    weights = torch.exp(x - x.amax(-1, keepdim=True))
    return weights / weights[..., : max(x.shape[-1] - 1, 1)].sum(-1, keepdim=True)


def softmax_max_of_all(x: Tensor) -> Tensor:
    weights = torch.exp(x - x.amax())
    return weights / weights.sum(-1, keepdim=True)


# --- normalisations ------------------------------------------------------------------------------------------


def layernorm_two_pass(x: Tensor, eps: float = EPS) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + eps)


def layernorm_blocks(x: Tensor, eps: float = EPS) -> Tensor:
    size = x.shape[-1]
    centred = x - summed_in_blocks(x) / size
    return centred * torch.rsqrt(summed_in_blocks(centred * centred) / size + eps)


def layernorm_welford(x: Tensor, eps: float = EPS) -> Tensor:
    """Tile statistics merged as Chan, Golub and LeVeque (1979) merge them."""
    count, mean, squares = 0, torch.zeros_like(x[..., :1]), torch.zeros_like(x[..., :1])
    for part in blocks(x):
        size = part.shape[-1]
        own = part.mean(-1, keepdim=True)
        delta = own - mean
        squares = squares + (part - own).square().sum(-1, keepdim=True)
        squares = squares + delta.square() * (count * size / (count + size))
        mean = mean + delta * (size / (count + size))
        count += size
    return (x - mean) * torch.rsqrt(squares / count + eps)


def layernorm_one_pass(x: Tensor) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    variance = x.square().mean(-1, keepdim=True) - mean.square()
    return (x - mean) * torch.rsqrt(variance.clamp(min=0.0) + EPS)


def layernorm_zero_padding(x: Tensor) -> Tensor:
    """The padded zeros join the variance: (0 - mean)^2 is not 0."""
    mean = x.sum(-1, keepdim=True) / x.shape[-1]
    centred = padded(x, 0.0) - mean
    return (x - mean) * torch.rsqrt(centred.square().sum(-1, keepdim=True) / x.shape[-1] + EPS)


def rmsnorm_naive(x: Tensor, eps: float = EPS) -> Tensor:
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + eps)


def rmsnorm_blocks(x: Tensor, eps: float = EPS) -> Tensor:
    return x * torch.rsqrt(summed_in_blocks(x * x) * (1.0 / x.shape[-1]) + eps)


def rmsnorm_backwards(x: Tensor, eps: float = EPS) -> Tensor:
    return x * torch.rsqrt(summed_backwards(x * x) / x.shape[-1] + eps)


def l2norm_naive(x: Tensor) -> Tensor:
    return x / torch.sqrt(x.square().sum(-1, keepdim=True) + L2_EPS)


def l2norm_blocks(x: Tensor) -> Tensor:
    return x * torch.rsqrt(summed_in_blocks(x * x) + L2_EPS)


def l2norm_backwards(x: Tensor) -> Tensor:
    return x * torch.rsqrt(summed_backwards(x * x) + L2_EPS)


def affine(function: Callable[..., Tensor]) -> Function:
    """A normalisation with weight, and bias where there is one."""

    def call(x: Tensor, w: Tensor, b: Tensor | None = None, *, eps: float) -> Tensor:
        scaled = function(x, eps) * w
        return scaled if b is None else scaled + b

    return call


def without_eps(function: Callable[..., Tensor]) -> Function:
    return affine(lambda x, _: function(x, 0.0))


def shifted_weight(x: Tensor, w: Tensor, b: Tensor | None = None, *, eps: float) -> Tensor:
    normal = rmsnorm_naive(x, eps) if b is None else layernorm_two_pass(x, eps)
    scaled = normal * w.roll(1)
    return scaled if b is None else scaled + b


def without_last_row(function: Function) -> Function:
    """The last row of the batch is not written."""

    def call(x: Tensor, *rest: Tensor, **params: Any) -> Tensor:
        result = function(x, *rest, **params).clone()
        result[-1:, -1:] = 0.0
        return result

    return call


def leaks(function: Function) -> Function:
    """Each row takes its statistics from the row before."""
    return lambda x: function(x).roll(1, dims=-2) if x.shape[-2] > 1 else function(x)


def accumulated(dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """A row sum whose accumulator is of a narrow dtype, tile by tile."""

    def total(x: Tensor) -> Tensor:
        result = torch.zeros_like(x[..., :1], dtype=dtype)
        for part in blocks(x, 8):
            result = result + part.float().sum(-1, keepdim=True).to(dtype)
        return result.float()

    return total


def rmsnorm_accumulated(dtype: torch.dtype) -> Function:
    total = accumulated(dtype)
    return lambda x: (x.float() * torch.rsqrt(total(x.float().square()) / x.shape[-1] + EPS)).to(x.dtype)


def softmax_coarse_exp(x: Tensor) -> Tensor:
    wide = x.float()
    weights = torch.exp((wide - wide.amax(-1, keepdim=True)).half()).float()
    return (weights / weights.sum(-1, keepdim=True)).to(x.dtype)


def softmax_accumulated(x: Tensor) -> Tensor:
    wide = x.float()
    weights = torch.exp(wide - wide.amax(-1, keepdim=True))
    return (weights / accumulated(torch.bfloat16)(weights)).to(x.dtype)


def _layer_norm(x: Tensor, w: Tensor, b: Tensor, eps: float) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:], w, b, eps)


_CONTROLS = (
    eager("softmax", lambda x: functional.softmax(x, dim=-1)),
    control("softmax", "naive", softmax_naive),
    control("softmax", "exp2", softmax_exp2),
    control("softmax", "online", softmax_online),
    control("softmax", "backwards", softmax_backwards),
    eager("layernorm", lambda x: functional.layer_norm(x, x.shape[-1:], eps=EPS)),
    control("layernorm", "two_pass", layernorm_two_pass),
    control("layernorm", "blocks", layernorm_blocks),
    control("layernorm", "welford", layernorm_welford),
    eager(
        "rmsnorm",
        lambda x: functional.rms_norm(x, x.shape[-1:], eps=EPS),
        composed=True,
        excluded=WRONG_ON_CUDA,
    ),
    control("rmsnorm", "naive", rmsnorm_naive),
    control("rmsnorm", "blocks", rmsnorm_blocks),
    control("rmsnorm", "backwards", rmsnorm_backwards),
    eager("l2norm", lambda x: x * torch.rsqrt(x.square().sum(-1, keepdim=True) + L2_EPS), composed=True),
    control("l2norm", "naive", l2norm_naive),
    control("l2norm", "blocks", l2norm_blocks),
    control("l2norm", "backwards", l2norm_backwards),
    eager(
        "rms_norm",
        lambda x, w, eps: functional.rms_norm(x, x.shape[-1:], w, eps),
        composed=True,
        excluded=WRONG_ON_CUDA,
    ),
    control("rms_norm", "naive", affine(rmsnorm_naive)),
    control("rms_norm", "blocks", affine(rmsnorm_blocks)),
    eager("layer_norm", _layer_norm),
    control("layer_norm", "two_pass", affine(layernorm_two_pass)),
    control("layer_norm", "welford", affine(layernorm_welford)),
)
_MUTANTS = (
    mutant("softmax", "zero_padding", softmax_zero_padding, "A", "padded zeros join the denominator"),
    mutant(
        "softmax", "dropped_last", softmax_dropped_last, "A", "the last column is left out of the denominator"
    ),
    mutant(
        "softmax",
        "no_rescale",
        lambda x: softmax_online(x, rescale=False),
        "J",
        "the denominator is not rescaled when the maximum rises",
    ),
    mutant("softmax", "first_block_max", softmax_first_block_max, "I", "the maximum is of the first tile only"),
    mutant(
        "softmax",
        "no_max",
        lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True),
        "I",
        "no maximum is subtracted",
    ),
    mutant("softmax", "max_of_all", softmax_max_of_all, "I", "the maximum is over all rows"),
    mutant(
        "softmax",
        "without_log2e",
        lambda x: torch.softmax(x * 0.6931471805599453, -1),
        "S",
        "exp2 without the factor log2(e)",
    ),
    mutant("softmax", "row_leak", leaks(softmax_naive), "L", "rows are written one too far"),
    mutant("softmax", "last_row", without_last_row(softmax_naive), "A", "the last row is not written"),
    mutant("layernorm", "one_pass", layernorm_one_pass, "H", "E[x^2] - mean^2 cancels"),
    mutant("layernorm", "zero_padding", layernorm_zero_padding, "A", "padded zeros join the variance"),
    mutant(
        "layernorm",
        "eps_outside",
        lambda x: (x - x.mean(-1, keepdim=True)) / (x.std(-1, correction=0, keepdim=True) + EPS),
        "S",
        "eps is added outside the root",
    ),
    mutant("layernorm", "no_eps", lambda x: layernorm_two_pass(x, 0.0), "S", "eps is omitted"),
    mutant("layernorm", "eps_1e6", lambda x: layernorm_two_pass(x, 1e-6), "S", "eps is 1e-6 in place of 1e-5"),
    mutant(
        "layernorm",
        "sample_variance",
        lambda x: (
            (x - x.mean(-1, keepdim=True))
            * torch.rsqrt(x.var(-1, correction=min(1, x.shape[-1] - 1), keepdim=True) + EPS)
        ),
        "S",
        "divided by n - 1",
    ),
    mutant(
        "rmsnorm", "no_root", lambda x: x / (x.square().mean(-1, keepdim=True) + EPS), "S", "no square root"
    ),
    mutant("rmsnorm", "no_eps", lambda x: rmsnorm_naive(x, 0.0), "S", "eps is omitted"),
    mutant(
        "rmsnorm",
        "padded_count",
        lambda x: x * torch.rsqrt(x.square().sum(-1, keepdim=True) / padded(x, 0.0).shape[-1] + EPS),
        "A",
        "divided by the padded size",
    ),
    mutant(
        "l2norm", "no_root", lambda x: x / (x.square().sum(-1, keepdim=True) + L2_EPS), "S", "no square root"
    ),
    mutant(
        "l2norm",
        "mean",
        lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + L2_EPS),
        "S",
        "the mean of squares in place of their sum",
    ),
    mutant(
        "l2norm",
        "dropped_last",
        lambda x: x * torch.rsqrt(x[..., : max(x.shape[-1] - 1, 1)].square().sum(-1, keepdim=True) + L2_EPS),
        "A",
        "the last column is left out",
    ),
    mutant("rms_norm", "no_eps", without_eps(rmsnorm_naive), "S", "eps is omitted"),
    mutant("rms_norm", "shifted_weight", shifted_weight, "L", "the weight is read one column too far"),
    mutant(
        "rms_norm",
        "no_weight",
        lambda x, w, eps: rmsnorm_naive(x, eps) + 0.0 * w,
        "L",
        "the weight is forgotten",
    ),
    mutant(
        "layer_norm",
        "no_bias",
        lambda x, w, b, eps: layernorm_two_pass(x, eps) * w + 0.0 * b,
        "L",
        "the bias is forgotten",
    ),
    mutant("layer_norm", "no_eps", without_eps(layernorm_two_pass), "S", "eps is omitted"),
    mutant("layer_norm", "shifted_weight", shifted_weight, "L", "the weight is read one column too far"),
    coarse("softmax", "coarse_exp", softmax_coarse_exp, "the exponential is computed in float16"),
    coarse("softmax", "bfloat16_sum", softmax_accumulated, "the denominator is accumulated in bfloat16"),
    coarse("rmsnorm", "float16_sum", rmsnorm_accumulated(torch.float16), "squares are accumulated in float16"),
    coarse(
        "rmsnorm", "bfloat16_sum", rmsnorm_accumulated(torch.bfloat16), "squares are accumulated in bfloat16"
    ),
    coarse(
        "layernorm",
        "truncating_store",
        lambda x: truncated(layernorm_two_pass(x.float()), 16).to(x.dtype),
        "the result is truncated to 8 bits",
    ),
)

IMPLEMENTATIONS: tuple[Implementation, ...] = (*_CONTROLS, *_MUTANTS)
