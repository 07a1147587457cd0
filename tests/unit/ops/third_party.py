"""What the tests of third-party ops share: small seeded inputs and closed forms in plain Python."""

from __future__ import annotations

import cmath
import math

import torch

Rows = list[list[float]]


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    """Standard normal float64 numbers."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def close(actual: torch.Tensor, expected: object) -> None:
    """Equal to a few roundings of float64."""
    torch.testing.assert_close(actual, torch.as_tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-14)


def rms_rows(x: Rows, eps: float) -> Rows:
    """Each row over the root of its mean square plus eps."""
    return [[v / math.sqrt(math.fsum(u * u for u in row) / len(row) + eps) for v in row] for row in x]


def silu(x: float) -> float:
    return x / (1 + math.exp(-x))


def gelu_tanh(x: float) -> float:
    return x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def turn(head: list[float], cos: list[float], sin: list[float]) -> list[float]:
    """Pairs (x_i, x_{i+R}) as complex numbers times cos + i sin."""
    half = len(cos)
    turned = [complex(head[i], head[i + half]) * complex(cos[i], sin[i]) for i in range(half)]
    return [z.real for z in turned] + [z.imag for z in turned]


def angles(positions: int, half: int) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin of position * 10000^(-i / half), shape (positions, half)."""
    table = [[cmath.rect(1, p * 10000 ** (-i / half)) for i in range(half)] for p in range(positions)]
    cos, sin = ([[getattr(z, part) for z in row] for row in table] for part in ("real", "imag"))
    return torch.tensor(cos, dtype=torch.float64), torch.tensor(sin, dtype=torch.float64)
