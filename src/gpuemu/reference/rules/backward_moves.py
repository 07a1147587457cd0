"""Adjoints of ops that move, select or average elements: the upstream gradient goes back where they came from.

Where several elements came from one, their gradients are summed, in any order (rule 6).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from gpuemu.reference.accumulation import gathered_error
from gpuemu.reference.bounded import Bounded
from gpuemu.reference.registry import Call, rule
from gpuemu.reference.rules.backward import add_error
from gpuemu.reference.rules.generic import generic
from gpuemu.reference.rules.movement import is_uncertain, move, to_plain, to_value
from gpuemu.reference.rules.windows import spread_doubt
from gpuemu.reference.step import to_operand

Tensor = torch.Tensor

rule("slice_backward", "select_backward", "diagonal_backward", "masked_scatter_backward")(move)


def gather_sums(call: Call, adjoint: Callable[[Tensor], Tensor], terms: int, rounds: bool = False) -> Any:
    """A linear function of the first argument, with weights of at least 0, that sums up to `terms` elements.

    Args:
        rounds: whether the weights are computed, a division or product each.
    """
    value, error = to_operand(call.args[0])
    result = adjoint(value)
    if result.numel() == 0:
        return call.make(result)
    if terms <= 1 and not rounds:
        return call.make(result, None if error is None else adjoint(error))
    bound = gathered_error(call.arithmetic, adjoint, [(value, error)], terms, certified=not rounds)
    if rounds:
        own = 4.0 * call.arithmetic.unit_roundoff
        bound = bound + adjoint(value.abs().nan_to_num(nan=0.0, posinf=0.0)) * own
    return call.make(result, torch.where(result.isfinite() | (bound == torch.inf), bound, 0.0))


def _counts(call: Call, adjoint: Callable[[Tensor], Tensor]) -> int:
    """The largest sum of weights."""
    counts = adjoint(torch.ones_like(to_operand(call.args[0])[0]))
    return math.ceil(float(counts.max())) if counts.numel() else 0


@rule(
    "unfold_backward", "col2im",
    "reflection_pad1d_backward", "reflection_pad2d_backward", "reflection_pad3d_backward",
    "replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward",
    "upsample_nearest1d_backward", "upsample_nearest2d_backward", "upsample_nearest3d_backward",
    "_upsample_nearest_exact1d_backward", "_upsample_nearest_exact2d_backward",
    "_upsample_nearest_exact3d_backward",
    "max_pool3d_with_indices_backward", "adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward",
)  # fmt: skip
def sum_back(call: Call) -> Any:
    """Sums of the gradients of all copies of an element; what was selected, selects."""
    others = to_plain(call.args[1:])
    if is_uncertain([a for a in call.args[1:] if isinstance(a, Tensor) and not a.is_floating_point()]):
        return generic(call)

    def adjoint(g: Tensor) -> Tensor:
        summed: Tensor = call.func(g, *others, **call.kwargs)
        return summed

    return gather_sums(call, adjoint, _counts(call, adjoint))


@rule("max_pool2d_with_indices_backward")
def maximum_back(call: Call) -> Any:
    """The gradient of each window goes to its largest element: where that is in doubt, to any of the window."""
    gradient, source, *options, places = call.args
    doubt = places.error if type(places) is Bounded else None
    certain = call.with_changes(gradient, source, *options, to_value(places))
    result = sum_back(certain)
    if doubt is None:
        return result
    (value, error), like = to_operand(gradient), to_operand(source)[0]
    size = value.abs() if error is None else value.abs() + error
    return add_error(call, result, spread_doubt(options, size, doubt > 0, like) * 2.0)


@rule(
    "avg_pool2d_backward", "avg_pool3d_backward", "_adaptive_avg_pool2d_backward",
    "_adaptive_avg_pool3d_backward",
)  # fmt: skip
def mean_back(call: Call) -> Any:
    """The mean's share of each gradient, summed over the windows that hold the element."""
    others = to_plain(call.args[1:])

    def adjoint(g: Tensor) -> Tensor:
        summed: Tensor = call.func(g, *others, **call.kwargs)
        return summed

    return gather_sums(call, adjoint, _windows(call, call.args[0]), rounds=True)


def _windows(call: Call, spread: Tensor) -> int:
    """At most so many windows hold an element."""
    if call.name.startswith("avg_pool"):
        kernel, stride = (list(call.args[i]) or list(call.args[2]) for i in (2, 3))
        spatial = 2 if call.name == "avg_pool2d_backward" else 3
        kernel, stride = (each * spatial if len(each) == 1 else each for each in (kernel, stride))
        return math.prod(-(-k // s) for k, s in zip(kernel, stride, strict=True))
    # Adaptive windows overlap by less than one element each side.
    source = call.args[1]
    pairs = zip(spread.shape[2:], source.shape[-len(spread.shape[2:]) :], strict=True)
    return math.prod(-(-out // size) + 1 for out, size in pairs)


@rule("embedding_dense_backward")
def embedding(call: Call) -> Any:
    """Rows of the gradient added to their row of the table; padding's are left out."""
    g, indices, rows, padding, by_frequency = call.args
    g, flat = call.follow(g), indices.reshape(-1)
    g = g.reshape(flat.numel(), -1) if flat.numel() else g.reshape(0, g.shape[-1])
    if by_frequency:
        counts = torch.bincount(flat, minlength=rows)[flat].double()
        g = g / call.make(counts.unsqueeze(1))
    if padding >= 0:
        g = g.masked_fill((flat == padding).unsqueeze(1), 0.0)
    zeros = call.make(torch.zeros(rows, g.shape[-1], dtype=torch.float64, device=g.device))
    return zeros.index_add(0, flat, g)
