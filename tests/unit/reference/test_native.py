"""Broad soundness: torch's own float32 and 16-bit arithmetic is legitimate, whatever the reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from input_regimes import ALL, draw
from reference_cases import assert_accepted, follow
from torch.nn import functional

from gpuemu.rounding import round_to

Reference = Callable[..., Any]
SHAPE = (4, 8)


def causal_attention(x: torch.Tensor) -> torch.Tensor:
    scores = x @ x.mT / math.sqrt(x.shape[-1])
    mask = torch.ones(scores.shape, dtype=torch.bool, device=x.device).tril()
    return functional.softmax(scores.masked_fill(~mask, -math.inf), dim=-1) @ x


def additive_mask(x: torch.Tensor) -> torch.Tensor:
    n = x.shape[0]
    mask = torch.full((n, n), torch.finfo(x.dtype).min, dtype=x.dtype, device=x.device).triu(1)
    return functional.softmax(x @ x.mT + mask, dim=-1).to(x.dtype) @ x


def in_place(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[..., :4] = 0.0
    y += x
    y.mul_(2.0)
    y[0] = x[1] * 3
    y.masked_fill_(x > 0.5, 1.0)
    y[x < -1] = 7.0
    y[:, 2:4].add_(torch.sigmoid(x[:, :2]))
    return y


def interleaved_rope(x: torch.Tensor) -> torch.Tensor:
    position = torch.arange(x.shape[0], dtype=x.dtype, device=x.device)[:, None] / 8
    cos, sin = torch.cos(position), torch.sin(position)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)


def z_loss(x: torch.Tensor) -> torch.Tensor:
    capped = 30 * torch.tanh(x / 30)
    target = torch.tensor([1, 2, 3, -100])
    loss = functional.cross_entropy(capped, target, label_smoothing=0.1, reduction="none")
    return loss + 1e-4 * torch.logsumexp(capped, -1) ** 2


REFERENCES: dict[str, Reference] = {
    "relu6": functional.relu6,
    "elu": functional.elu,
    "selu": functional.selu,
    "celu": functional.celu,
    "leaky_relu": functional.leaky_relu,
    "prelu": lambda x: functional.prelu(x, torch.tensor([0.25], dtype=x.dtype)),
    "softplus": functional.softplus,
    "mish": functional.mish,
    "hardswish": functional.hardswish,
    "hardsigmoid": functional.hardsigmoid,
    "hardtanh": functional.hardtanh,
    "hardshrink": functional.hardshrink,
    "softshrink": functional.softshrink,
    "threshold": lambda x: functional.threshold(x, 0.1, 20.0),
    "logsigmoid": functional.logsigmoid,
    "softsign": functional.softsign,
    "glu": functional.glu,
    "gelu": functional.gelu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "swiglu": lambda x: functional.silu(x[:, :4]) * x[:, 4:],
    "geglu": lambda x: functional.gelu(x[:, :4], approximate="tanh") * x[:, 4:],
    "log_softmax": lambda x: functional.log_softmax(x, -1),
    "logsumexp": lambda x: torch.logsumexp(x, -1),
    "layer_norm": lambda x: functional.layer_norm(x, (8,), x[0], x[1]),
    "group_norm": lambda x: functional.group_norm(x, 2, x[0], x[1]),
    "batch_norm": lambda x: functional.batch_norm(x, None, None, training=True),
    "batch_norm_of_images": lambda x: functional.batch_norm(x.reshape(2, 2, 2, 4), None, None, training=True),
    "batch_norm_with_statistics": lambda x: functional.batch_norm(x, x[0], x[1].abs() + 1, x[2], x[3]),
    "rms_norm": lambda x: functional.rms_norm(x, (8,), x[0], 1e-5),
    "normalize": lambda x: functional.normalize(x, dim=-1),
    "vector_norms": lambda x: (x.norm(dim=-1), x.norm(p=1, dim=-1), x.norm(p=math.inf, dim=-1)),
    "variance": lambda x: (x.var(-1), x.std(-1, unbiased=False), *torch.var_mean(x, -1)),
    "sums": lambda x: (x.sum(), x.mean(), x.sum(0), x.cumsum(-1)),
    "extremes": lambda x: (x.amax(-1), x.min(), x.max(-1)[0], (x * 3).max(0)[0]),
    "order": lambda x: (x.sort(-1)[0], (x * 3).topk(2)[0]),
    "linear": lambda x: functional.linear(x, x[:3], x[0, :3]),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "vectors": lambda x: (x @ x[0], x[0] @ x[1], torch.outer(x[0], x[1])),
    "batched": lambda x: torch.baddbmm(x[None, :, :4], x[None], x[None, :4].mT, beta=0.5, alpha=2),
    "conv": lambda x: functional.conv2d(x[None, None], x[None, None, :2, :2], x[0, :1], padding=1),
    "causal_attention": causal_attention,
    "additive_mask": additive_mask,
    "sdpa": lambda x: functional.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]),
    "sdpa_causal": lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
    "sdpa_causal_heads": lambda x: functional.scaled_dot_product_attention(
        *(x.view(1, 2, 2, 8),) * 3, is_causal=True, scale=0.7
    ),
    "sdpa_grouped": lambda x: functional.scaled_dot_product_attention(
        x.view(1, 4, 2, 4), x.view(1, 2, 4, 4), x.view(1, 2, 4, 4), enable_gqa=True
    ),
    "sdpa_masked": lambda x: functional.scaled_dot_product_attention(
        *(x.view(1, 1, 4, 8),) * 3, attn_mask=torch.arange(4)[:, None] >= torch.arange(4)
    ),
    "interleaved_rope": interleaved_rope,
    "cross_entropy": lambda x: functional.cross_entropy(x, torch.tensor([1, 2, 3, -100])),
    "cross_entropy_weighted": lambda x: functional.cross_entropy(x, torch.tensor([1, 2, 3, 0]), x[0].abs()),
    "cross_entropy_of_shares": lambda x: functional.cross_entropy(x, functional.softmax(x, -1)),
    "z_loss": z_loss,
    "losses": lambda x: (functional.mse_loss(x, 2 * x), functional.l1_loss(x, 2 * x)),
    "smooth_losses": lambda x: (
        functional.smooth_l1_loss(x, 2 * x),
        functional.huber_loss(x, 2 * x, delta=0.5),
    ),
    "logits_loss": lambda x: functional.binary_cross_entropy_with_logits(x, torch.sigmoid(x)),
    "powers": lambda x: (x**2, x**3, x**-2, x.abs() ** 0.3, x.abs() ** 1.5, 2**x),
    "quotients": lambda x: (1 / x, x / (x * x + 1), 1 - x),
    "waves": lambda x: (torch.sin(x), torch.cos(x)),
    "logarithms": lambda x: (torch.log1p(x.abs()), torch.log(x.abs()), torch.expm1(x), torch.erf(x)),
    "selections": lambda x: (torch.where(x > 0, x, 0.1 * x), x.clamp(-0.3, 0.7), torch.maximum(x, x * x)),
    "moves": lambda x: (
        torch.cat((x, x), 1),
        functional.pad(x, (1, 1)),
        x.roll(1, -1),
        x.repeat_interleave(2, 1),
    ),
    "masked_mean": lambda x: (x * (x > 0)).sum(-1) / (x > 0).sum(-1),
    "in_place": in_place,
    "fused": lambda x: (
        torch.addcmul(x, x, x, value=0.5),
        torch.lerp(x, 2 * x, 0.3),
        torch.logaddexp(x, 2 * x),
    ),
}


FLOAT32_REGIMES = [regime for regime in ALL if regime not in ("uniform", "small", "negative", "huge")]


def outputs(result: Any) -> tuple[torch.Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("name", REFERENCES)
def test_values_are_those_of_float64(name: str) -> None:
    x = draw("normal", SHAPE, 0)
    expected = follow(REFERENCES[name], x)
    assert expected.problem is None
    with torch.no_grad():
        plain = outputs(REFERENCES[name](x.double()))
    for y, output in zip(plain, expected.outputs, strict=True):
        torch.testing.assert_close(output.value, y.double(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", REFERENCES)
def test_native_float32_is_accepted(name: str) -> None:
    reference = REFERENCES[name]
    for seed, regime in enumerate(FLOAT32_REGIMES):
        x = draw(regime, SHAPE, seed)
        expected = follow(reference, x)
        assert expected.problem is None
        assert expected.generic == ()
        with torch.no_grad():
            actual = outputs(reference(x.clone()))
        for y, output in zip(actual, expected.outputs, strict=True):
            assert_accepted(y, output.value, output.bound, "float32")


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_float32_arithmetic_on_16_bits_is_accepted(name: str, dtype: str) -> None:
    reference = REFERENCES[name]
    for seed, regime in enumerate(("normal", "offset", "integers", "mixed")):
        x = draw(regime, SHAPE, seed, getattr(torch, dtype))
        expected = follow(reference, x)
        with torch.no_grad():
            actual = outputs(reference(x.float()))
        if expected.infinite_input:
            continue  # NaN and infinities have rules of their own
        for y, output in zip(actual, expected.outputs, strict=True):
            assert_accepted(round_to(y.double(), dtype), output.value, output.bound, dtype)


@pytest.mark.parametrize("name", REFERENCES)
def test_eager_bfloat16_is_accepted_under_p2(name: str) -> None:
    reference = REFERENCES[name]
    for seed, regime in enumerate(("normal", "large", "integers", "huge")):
        x = draw(regime, SHAPE, seed, torch.bfloat16)
        expected = follow(reference, x, profile="P2")
        with torch.no_grad():
            actual = outputs(reference(x.clone()))
        for y, output in zip(actual, expected.outputs, strict=True):
            assert_accepted(y.bfloat16(), output.value, output.bound, "bfloat16")
