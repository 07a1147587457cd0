"""Rule 6 for sums that gather elements: means over windows, and additions at indices."""

from __future__ import annotations

from typing import Any

import torch

from gpuemu.reference.accumulation import gathered_error
from gpuemu.reference.registry import Call, rule
from gpuemu.reference.rules.generic import generic
from gpuemu.reference.rules.movement import is_uncertain, make_scatter, to_plain
from gpuemu.reference.step import to_operand

Tensor = torch.Tensor
# Additions at indices: the position of what is added; it is added to the first argument.
ADDITIONS = {"index_add": 3, "scatter_add": 3, "index_put": 2}


@rule("avg_pool2d", "avg_pool3d")
def window_mean(call: Call) -> Any:
    """The mean of each window, as `mean`: the sum's error over the divisor, plus u |mean| and a flush."""
    (value, error), arithmetic = to_operand(call.args[0]), call.arithmetic
    options = [call.argument(*option) for option in _OPTIONS]
    result = call.func(value, *options)
    if result.numel() == 0:
        return call.make(result)
    spatial = 2 if call.name == "avg_pool2d" else 3
    sizes = options[0] if len(options[0]) > 1 else list(options[0]) * spatial
    terms = int(torch.tensor(sizes).prod())

    def window_sum(x: Tensor) -> Tensor:
        summed: Tensor = call.func(x, *options[:-1], 1)
        return summed

    total = gathered_error(arithmetic, window_sum, [(value, error)], terms, certified=False)
    ones = torch.ones_like(value)
    total *= (call.func(ones, *options) / window_sum(ones)).abs_()
    own = result.abs() * arithmetic.unit_roundoff + result.abs().clamp(max=arithmetic.underflow)
    own.masked_fill_(~result.isfinite(), 0.0)
    return call.make(result, torch.where(result.isfinite() | (total == torch.inf), total + own, 0.0))


_OPTIONS: tuple[tuple[int, str, Any], ...] = (
    (1, "kernel_size", None),
    (2, "stride", []),
    (3, "padding", 0),
    (4, "ceil_mode", False),
    (5, "count_include_pad", True),
    (6, "divisor_override", None),
)


@rule("index_add", "scatter_add", "index_put")
def add_at_indices(call: Call) -> Any:
    """Sums of an element and all that is added to it, in any order; g(n) of the largest count."""
    position = ADDITIONS[call.name]
    if call.name == "index_put" and not call.argument(3, "accumulate", False):
        return make_scatter(0, position)(call)  # overwrites
    data = call.args[0], call.args[position]
    others = [None if i in (0, position) else argument for i, argument in enumerate(call.args)]
    if is_uncertain(others) or not call.args[0].is_floating_point():
        return generic(call)
    alpha = call.kwargs.get("alpha", 1)
    if alpha != 1:  # what is added is scaled first
        arguments = list(call.args)
        arguments[position] = call.follow(arguments[position]) * alpha
        return add_at_indices(call.with_changes(*arguments))
    operands = [to_operand(argument) for argument in data]

    def add(into: Tensor, new: Tensor) -> Tensor:
        arguments = to_plain(others)
        arguments[0], arguments[position] = into, new
        total: Tensor = call.func(*arguments, **call.kwargs)
        return total

    (target, target_error), (source, _) = operands
    result = add(target, source)
    if result.numel() == 0:
        return call.make(result)
    added = add(torch.zeros_like(target), torch.ones_like(source))
    error = gathered_error(call.arithmetic, add, operands, int(added.max()) + 1)
    error = torch.where(result.isfinite() | (error == torch.inf), error, 0.0)
    untouched = torch.zeros_like(target) if target_error is None else target_error
    return call.make(result, torch.where(added == 0, untouched, error))
