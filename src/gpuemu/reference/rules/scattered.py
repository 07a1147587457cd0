"""Reductions at indices, lookups that reduce, and distances between rows: written out in followed ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gpuemu.reference.accumulation import gathered_error
from gpuemu.reference.registry import Call, rule
from gpuemu.reference.rules.generic import generic
from gpuemu.reference.rules.movement import is_uncertain, to_value
from gpuemu.reference.rules.product import error_of_products
from gpuemu.reference.step import to_operand

Tensor = torch.Tensor


@rule("scatter_reduce.two")
def reduce_at_indices(call: Call) -> Any:
    """Sums, means, extremes (two-sided) or products of what is put at an index, in any order."""
    target, dim, index, source = call.args[:4]
    kind = str(call.argument(4, "reduce"))
    if is_uncertain(index):
        return generic(call)
    return _reduce(call, target, source, kind, call.kwargs.get("include_self", True), dim, to_value(index))


@rule("scatter.reduce", "scatter.value_reduce")
def put_and_reduce(call: Call) -> Any:
    """`scatter` that adds or multiplies: a sum or product at an index."""
    target, dim, index, source = call.args[:4]
    if is_uncertain(index):
        return generic(call)
    kind = {"add": "sum", "multiply": "prod"}[str(call.argument(4, "reduce"))]
    place = to_value(index)
    if not isinstance(source, Tensor):
        number, error = to_operand(source, call.arithmetic, target)
        whole = torch.full(place.shape, float(number), dtype=torch.float64, device=place.device)
        source = call.make(whole, None if error is None else torch.full_like(whole, float(error)))
    return _reduce(call, target, source, kind, True, dim, place)


@rule("index_reduce")
def reduce_at_rows(call: Call) -> Any:
    """As `scatter_reduce`, whole slices at a time."""
    target, dim, index, source = call.args[:4]
    if is_uncertain(index):
        return generic(call)
    if not source.dim() or not target.dim():
        rows = (call.follow(x).reshape(1) for x in (target, source))
        index = to_value(index).reshape(1)
        call = call.with_changes(next(rows), 0, index, next(rows), *call.args[4:], **call.kwargs)
        return reduce_at_rows(call).reshape(target.shape)
    shape = [1] * source.dim()
    shape[dim] = -1
    spread = to_value(index).long().reshape(shape).expand(source.shape)
    include_self = call.kwargs.get("include_self", True)
    return _reduce(call, target, source, str(call.argument(4, "reduce")), include_self, dim, spread)


def _reduce(
    call: Call, target: Any, source: Any, kind: str, include_self: bool, dim: int, index: Tensor
) -> Any:
    (into, into_error), (new, new_error) = to_operand(target), to_operand(source)

    def scatter(a: Tensor, b: Tensor, reduction: str, own: bool = include_self) -> Tensor:
        return torch.scatter_reduce(a, dim, index, b, reduction, include_self=own)

    result = scatter(into, new, kind)
    added = scatter(torch.zeros_like(into), torch.ones_like(new), "sum")
    own_error = torch.zeros_like(into) if into_error is None else into_error
    source_error = torch.zeros_like(new) if new_error is None else new_error
    if kind in ("amax", "amin"):
        ends = [scatter(into + s * own_error, new + s * source_error, kind) for s in (1.0, -1.0)]
        error = torch.maximum(*((end - result).abs() for end in ends)).nan_to_num(nan=torch.inf)
    elif kind in ("sum", "mean"):
        terms = int(added.max()) + 1 if added.numel() else 1
        operands = [(into, into_error), (new, new_error)]
        error = gathered_error(
            call.arithmetic, lambda a, b: scatter(a, b, "sum"), operands, terms, certified=kind == "sum"
        )
        if kind == "mean":  # the sum's flush, of at least omega an element, covers that of the quotient
            counts = (added + float(include_self)).clamp(min=1.0)
            error = error / counts + result.abs() * call.arithmetic.unit_roundoff
    else:
        error = error_of_products(
            call.arithmetic,
            lambda a, b: scatter(a, b, "prod"),
            lambda a, b: scatter(a, b, "sum"),
            [(into, into_error), (new, new_error)],
            added + float(include_self),
        )
    untouched = added == 0
    error = torch.where(untouched, own_error, error)
    return call.make(result, torch.where(result.isfinite() | (error == torch.inf), error, 0.0))


@rule("put")
def put_at_places(call: Call) -> Any:
    """Elements at row-major places, overwritten or added to."""
    target, index, source = call.args[:3]
    x = call.follow(target)
    flat = x.reshape(-1)
    places = to_value(index).reshape(-1).remainder(max(flat.shape[0], 1))
    values = call.follow(source).reshape(-1)
    if call.argument(3, "accumulate", False):
        return flat.index_add(0, places, values).reshape(x.shape)
    return flat.index_copy(0, places, values).reshape(x.shape)


@rule("index_fill.int_Scalar", "index_fill.int_Tensor")
def fill_rows(call: Call) -> Any:
    """Whole slices set to one number."""
    target, dim, index, number = call.args
    x = call.follow(target)
    chosen = torch.zeros(x.shape[dim] if x.dim() else 1, dtype=torch.bool, device=x.device)
    chosen[to_value(index)] = True
    shape = [1] * x.dim()
    if x.dim():
        shape[dim] = -1
    return torch.where(chosen.reshape(shape), call.follow(number), x)


@rule("_embedding_bag_forward_only", "_embedding_bag")
def bag(call: Call) -> Any:
    """Sums, means or maxima of the rows of a table, a bag at a time."""
    weight, index, offsets = call.args[:3]
    mode, scale = call.argument(4, "mode", 0), call.argument(6, "per_sample_weights")
    last, padding = call.argument(7, "include_last_offset", False), call.argument(8, "padding_idx", -1)
    index, offsets = to_value(index), to_value(offsets)
    rows = call.follow(weight)[index]
    if scale is not None:
        rows = rows * call.follow(scale).unsqueeze(-1)
    ends = offsets.tolist()[1:] if last else [*offsets.tolist()[1:], index.numel()]
    bags = []
    for start, end in zip(offsets.tolist(), ends, strict=False):
        kept = [i for i in range(start, end) if int(index[i]) != padding]
        part = rows[kept]
        if not kept:
            bags.append(rows.new_zeros(rows.shape[1]) if rows.shape[0] else call.follow(weight)[0] * 0.0)
        else:
            bags.append(part.amax(0) if mode == 2 else part.mean(0) if mode == 1 else part.sum(0))
    result = torch.stack(bags) if bags else call.follow(weight)[:0]
    empty = torch.zeros(0, dtype=torch.int64)
    return result, empty, empty, empty


@rule("_trilinear")
def trilinear(call: Call) -> Any:
    """A sum over products of three tensors, broadcast by the dims named."""
    parts = []
    for x, expanded in zip(call.args[:3], call.args[3:6], strict=True):
        y = call.follow(x)
        for dim in expanded:
            y = y.unsqueeze(dim)
        parts.append(y)
    product = parts[0] * parts[1] * parts[2]
    return product.sum(list(call.args[6])) if call.args[6] else product


@rule("_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def adaptive_mean(call: Call) -> Any:
    """Means over windows of different sizes: the sum's error, with g(n) of the largest window, over the size.

    It is the sum that overflows, not the mean.
    """
    (value, error), sizes = to_operand(call.args[0]), list(call.args[1])
    result = call.func(value, sizes)
    if result.numel() == 0:
        return call.make(result)
    counts = _window_sizes(value, sizes)

    def window_sum(x: Tensor) -> Tensor:
        mean: Tensor = call.func(x, sizes)
        return mean * counts

    bound = gathered_error(call.arithmetic, window_sum, [(value, error)], int(counts.max()), certified=False)
    bound = bound / counts + result.abs() * call.arithmetic.unit_roundoff + call.arithmetic.underflow
    return call.make(result, torch.where(result.isfinite() | (bound == torch.inf), bound, 0.0))


def _window_sizes(x: Tensor, sizes: Sequence[int]) -> Tensor:
    """How many elements each window holds: along an axis, those from floor(i n / m) to ceil((i + 1) n / m)."""
    counts = torch.ones((), dtype=torch.float64, device=x.device)
    for n, m in zip(x.shape[-len(sizes) :], sizes, strict=True):
        widths = [-(-(i + 1) * n // m) - i * n // m for i in range(m)]
        counts = counts.unsqueeze(-1) * torch.tensor(widths, dtype=torch.float64, device=x.device)
    return counts
