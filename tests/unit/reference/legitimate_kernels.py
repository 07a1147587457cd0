"""Simulated correct kernels in NumPy float32, in many orders and formulas, on arrays of shape (rows, n)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

F32 = np.float32
Array = np.ndarray


def sum_sequential(x: Array) -> Array:
    total = np.zeros(x.shape[:-1], F32)
    for k in range(x.shape[-1]):
        total = total + x[..., k]
    return total


def sum_reversed(x: Array) -> Array:
    return sum_sequential(x[..., ::-1])


def sum_pairwise(x: Array) -> Array:
    while x.shape[-1] > 1:
        if x.shape[-1] % 2:
            x = np.concatenate([x, np.zeros((*x.shape[:-1], 1), F32)], -1)
        x = x[..., ::2] + x[..., 1::2]
    return x[..., 0] if x.shape[-1] else np.zeros(x.shape[:-1], F32)


def sum_blocked(x: Array, block: int = 16) -> Array:
    parts = [sum_sequential(x[..., i : i + block]) for i in range(0, x.shape[-1], block)]
    return sum_sequential(np.stack(parts, -1)) if parts else np.zeros(x.shape[:-1], F32)


SUMS: dict[str, Callable[[Array], Array]] = {
    "sequential": sum_sequential,
    "reversed": sum_reversed,
    "pairwise": sum_pairwise,
    "blocked": sum_blocked,
}


def matmul(a: Array, b: Array, add: Callable[[Array], Array]) -> Array:
    """Every product rounded, then summed in some order (no fused multiply-add)."""
    return add(a[:, None, :] * b.T[None, :, :])


def truncating_matmul(a: Array, b: Array, block: int = 16, fraction_bits: int = 24) -> Array:
    """A tensor core: exact products, aligned to the largest exponent and truncated, block by block."""
    total = np.zeros((a.shape[0], b.shape[1]))
    for start in range(0, a.shape[1], block):
        products = a[:, None, start : start + block].astype(float) * b.T[None, :, start : start + block]
        addends = np.concatenate([total[..., None], products], -1)
        _, exponent = np.frexp(np.abs(addends).max(-1, keepdims=True))
        quantum = np.ldexp(1.0, exponent - fraction_bits)
        total = (np.trunc(addends / quantum) * quantum).sum(-1)
        total = np.trunc(total / quantum[..., 0]) * quantum[..., 0]
    return total.astype(F32)


def softmax_three_pass(x: Array, add: Callable[[Array], Array]) -> Array:
    shifted = np.exp(x - x.max(-1, keepdims=True))
    return shifted / add(shifted)[..., None]


def softmax_exp2(x: Array, add: Callable[[Array], Array]) -> Array:
    """log2 e folded into the scores, exp2, and a reciprocal."""
    scaled = x * F32(1.4426950408889634)
    powers = np.exp2(scaled - scaled.max(-1, keepdims=True))
    return powers * (F32(1.0) / add(powers))[..., None]


def softmax_online(x: Array, add: Callable[[Array], Array], block: int = 8) -> Array:
    highest = np.full(x.shape[:-1], -np.inf, F32)
    total = np.zeros(x.shape[:-1], F32)
    for i in range(0, x.shape[-1], block):
        part = x[..., i : i + block]
        new = np.maximum(highest, part.max(-1))
        total = total * np.exp(highest - new) + add(np.exp(part - new[..., None]))
        highest = new
    return np.exp(x - highest[..., None]) / total[..., None]


SOFTMAXES = {"three_pass": softmax_three_pass, "exp2": softmax_exp2, "online": softmax_online}


def layer_norm_two_pass(x: Array, eps: float, add: Callable[[Array], Array]) -> Array:
    n = F32(x.shape[-1])
    deviation = x - (add(x) / n)[..., None]
    variance = add(deviation * deviation) / n
    return deviation * (F32(1.0) / np.sqrt(variance + F32(eps)))[..., None]


def layer_norm_welford(x: Array, eps: float) -> Array:
    mean, squares = np.zeros(x.shape[:-1], F32), np.zeros(x.shape[:-1], F32)
    for k in range(x.shape[-1]):
        delta = x[..., k] - mean
        mean = mean + delta / F32(k + 1)
        squares = squares + delta * (x[..., k] - mean)
    inverse = F32(1.0) / np.sqrt(squares / F32(x.shape[-1]) + F32(eps))
    return (x - mean[..., None]) * inverse[..., None]


def rms_norm(x: Array, eps: float, add: Callable[[Array], Array]) -> Array:
    mean = add(x * x) / F32(x.shape[-1])
    return x * (F32(1.0) / np.sqrt(mean + F32(eps)))[..., None]


def gelu_tanh(x: Array) -> Array:
    inner = F32(math.sqrt(2 / math.pi)) * (x + F32(0.044715) * x * x * x)
    return F32(0.5) * x * (F32(1.0) + np.tanh(inner))


def gelu_sigmoid(x: Array) -> Array:
    """The tanh form rewritten with a sigmoid, as many kernels do."""
    inner = F32(2 * math.sqrt(2 / math.pi)) * x * (F32(1.0) + F32(0.044715) * x * x)
    return x / (F32(1.0) + np.exp(-inner))


def gelu_erf(x: Array) -> Array:
    erf = np.array([math.erf(float(v)) for v in (x * F32(math.sqrt(0.5))).ravel()], F32).reshape(x.shape)
    return F32(0.5) * x * (F32(1.0) + erf)


def silu_divide(x: Array) -> Array:
    return x / (F32(1.0) + np.exp(-x))


def silu_exp2(x: Array) -> Array:
    return x * (F32(1.0) / (F32(1.0) + np.exp2(x * F32(-1.4426950408889634))))


def cross_entropy(x: Array, target: Array, add: Callable[[Array], Array]) -> Array:
    highest = x.max(-1)
    log_sum = highest + np.log(add(np.exp(x - highest[:, None])))
    return log_sum - x[np.arange(len(x)), target]


def cross_entropy_exp2(x: Array, target: Array, add: Callable[[Array], Array]) -> Array:
    scaled = x * F32(1.4426950408889634)
    highest = scaled.max(-1)
    total = np.log2(add(np.exp2(scaled - highest[:, None]))) + highest
    return (total - scaled[np.arange(len(x)), target]) * F32(0.6931471805599453)


def rope(x: Array, cos: Array, sin: Array) -> Array:
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def attention(q: Array, k: Array, v: Array, add: Callable[[Array], Array], storage: type = F32) -> Array:
    """softmax(q k^T / sqrt(D)) v; the shares may be cast to the storage dtype before the second product."""
    scores = matmul(q, k.T, add) * F32(q.shape[-1] ** -0.5)
    shares = softmax_three_pass(scores, add).astype(storage).astype(F32)
    return matmul(shares, v, add)


def flash_attention(q: Array, k: Array, v: Array, block: int = 8) -> Array:
    """Tile by tile with a running maximum; the division at the end."""
    highest = np.full(len(q), -np.inf, F32)
    total, out = np.zeros(len(q), F32), np.zeros((len(q), v.shape[1]), F32)
    for i in range(0, len(k), block):
        scores = matmul(q, k[i : i + block].T, sum_sequential) * F32(q.shape[-1] ** -0.5)
        new = np.maximum(highest, scores.max(-1))
        shares, scale = np.exp(scores - new[:, None]), np.exp(highest - new)
        total = total * scale + sum_sequential(shares)
        out = out * scale[:, None] + matmul(shares, v[i : i + block], sum_sequential)
        highest = new
    return out / total[:, None]
