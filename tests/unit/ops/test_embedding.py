"""RoPE as a product of complex numbers."""

from __future__ import annotations

import torch
from third_party import angles, close, draw, turn

from gpuemu.ops.registry import get_op


def test_rope_turns_queries_and_keys() -> None:
    q, k = draw(2, 3, 4, 6), draw(2, 1, 4, 6, seed=1)
    cos, sin = angles(4, 3)
    for before, after in zip((q, k), get_op("rope").reference(q, k, cos, sin), strict=True):
        for batch, head, s in torch.cartesian_prod(*(torch.arange(n) for n in before.shape[:3])).tolist():
            expected = turn(before[batch, head, s].tolist(), cos[s].tolist(), sin[s].tolist())
            close(after[batch, head, s], expected)


def test_a_turn_keeps_lengths_and_relative_angles() -> None:
    """The property that the paper asks for: <R_m q, R_n k> depends on m - n alone."""
    cos, sin = angles(8, 3)
    q, k = draw(1, 1, 1, 6).expand(1, 1, 8, 6), draw(1, 1, 1, 6, seed=1).expand(1, 1, 8, 6)
    turned_q, turned_k = (x[0, 0] for x in get_op("rope").reference(q, k, cos, sin))
    close(turned_q.norm(dim=-1), q[0, 0].norm(dim=-1))
    close((turned_q[3] * turned_k[1]).sum(), (turned_q[7] * turned_k[5]).sum())
