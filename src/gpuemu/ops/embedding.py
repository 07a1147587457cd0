"""Rotary position embedding: pairs of a head's elements turned by an angle per position."""

from __future__ import annotations

import torch

from gpuemu.model.op import Dim, Op, Tensor


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn the pairs (x_i, x_{i + R}) of the last axis, R its half: Su et al., arXiv 2104.09864, equation 34.

    x: ... 2R; cos, sin: broadcastable to ... R. The pairing is that of GPT-NeoX and Llama; the paper pairs
    neighbours.
    """
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def rope(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries `q: B Q S 2*R` and keys `k: B K S 2*R` turned by the angles of `cos: S R` and `sin: S R`."""
    return rotate(q, cos, sin), rotate(k, cos, sin)


def table(shape: str) -> Tensor:
    """A table of cosines or sines: numbers in [-1, 1), of which nobody asks the gradient.

    A cosine and its sine need not belong to one angle: any linear map of the pair shows a mistake as well.
    """
    return Tensor(shape, low=-1, high=1, differentiable=False)


HEAD_DIMS = {"B": Dim(1, 64, batch=True), "S": Dim(1, 4096, batch=True), "Q": Dim(1, 64), "K": Dim(1, 64)}

OPS = (
    Op(
        "rope",
        inputs={"q": "B Q S 2*R", "k": "B K S 2*R", "cos": table("S R"), "sin": table("S R")},
        dims={**HEAD_DIMS, "R": Dim(1, 128)},
        reference=rope,
        doc="(x1 cos - x2 sin, x2 cos + x1 sin) for the halves x1, x2 of every head of q and k",
    ),
)
