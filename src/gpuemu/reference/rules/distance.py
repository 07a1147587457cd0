"""Distances between rows: by their differences, or from a matrix product."""

from __future__ import annotations

from typing import Any

import torch

from gpuemu.reference.registry import Call, rule
from gpuemu.reference.rules.exact import is_raw
from gpuemu.reference.step import to_operand

Tensor = torch.Tensor


@rule("_cdist_forward")
def distances(call: Call) -> Any:
    """|a_i - b_j| for all pairs of rows, by their differences."""
    a, b, order = call.follow(call.args[0]), call.follow(call.args[1]), float(call.args[2])
    return torch.linalg.vector_norm(a.unsqueeze(-2) - b.unsqueeze(-3), order, dim=-1)


@rule("_pdist_forward")
def distances_within(call: Call) -> Any:
    """|a_i - a_j| for i < j."""
    x, order = call.follow(call.args[0]), float(call.argument(1, "p", 2.0))
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1)
    return torch.linalg.vector_norm(x[first] - x[second], order, dim=-1)


@rule("_euclidean_dist")
def distances_by_product(call: Call) -> Any:
    """|a_i - b_j| from |a|^2 + |b|^2 - 2 a b, which torch takes for more than 25 rows; or by differences.

    Its source is `cdist` in torch's aten/src/ATen/native/Distance.cpp. The square is off by E, what the sums of
    a^2, b^2 and |a| |b| lose, and is clamped at 0: its root then by at most min(sqrt(E), E / d). By
    differences: a distance is 1-Lipschitz in a - b, whose elements are off by e_a + e_b and u (|a| + |b|);
    squares, sum and root add g(K) / 2 + 5 units. What may be flushed is in E.
    """
    arithmetic, a, b = call.arithmetic, call.follow(call.args[0]), call.follow(call.args[1])
    (value_a, error_a), (value_b, error_b) = to_operand(a), to_operand(b)
    value = torch.cdist(value_a, value_b, compute_mode="donot_use_mm_for_euclid_dist")
    sizes = [_magnitude(call, x) for x in (a, b)]
    squares = [(size * size).sum(-1) for size in sizes]
    total: Any = squares[0].unsqueeze(-1) + squares[1].unsqueeze(-2) + sizes[0] @ sizes[1].mT * 2.0
    _, lost = to_operand(total)
    unit = arithmetic.unit_roundoff
    error = value * (arithmetic.sum_share(value_a.shape[-1]) / 2.0 + 5.0 * unit)
    for x, off, dim in ((value_a, error_a, -1), (value_b, error_b, -2)):
        moved = unit * _length(x) if off is None else unit * _length(x.abs() + off) + _length(off)
        error = error + moved.unsqueeze(dim)
    if lost is not None:
        error = error + torch.minimum(lost.sqrt(), lost / value).nan_to_num(nan=0.0, posinf=torch.inf)
    error = torch.where(value.isfinite(), error, 0.0)
    for off, dim in ((error_a, -1), (error_b, -2)):
        if off is not None:
            error = torch.where((~off.isfinite()).any(-1).unsqueeze(dim), torch.inf, error)
    return call.make(value, error)


def _length(x: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(x, dim=-1)
    return length


def _magnitude(call: Call, x: Any) -> Any:
    """|x| + e, without an error of its own."""
    value, error = to_operand(x)
    return call.make(value.abs() if error is None else value.abs() + error, None, is_raw(x) and error is None)
