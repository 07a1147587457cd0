"""Tensors that a reference makes itself: floats are float64 and exact whatever dtype was asked for."""

from __future__ import annotations

from typing import Any

import torch

from gpuemu.reference.bounded import Bounded
from gpuemu.reference.registry import Call, factory, rule
from gpuemu.reference.step import to_operand

# linspace and logspace compute their elements: a product, a sum and a quotient.
COMPUTED_UNITS = 4.0
# Without a dtype these follow their arguments; the others make floats.
FOLLOWING = frozenset({"arange", "full", "scalar_tensor"})


@factory(
    "arange",
    "empty.memory_format",
    "empty_permuted",
    "empty_strided",
    "eye",
    "full",
    "ones",
    "scalar_tensor",
    "zeros",
)
def make(call: Call) -> Any:
    """A tensor from numbers."""
    dtype = call.kwargs.get("dtype")
    if dtype is None and call.name in FOLLOWING:
        makes_floats = any(isinstance(argument, float) for argument in call.args)
    else:
        makes_floats = dtype is None or dtype.is_floating_point
    return call.make(_make_float64(call)) if makes_floats else call.func(*call.args, **call.kwargs)


@factory("linspace", "logspace")
def make_range(call: Call) -> Any:
    """Equidistant numbers or powers, which a kernel computes; the ends may be computed tensors.

    a + (b - a) i / (n - 1), or b - (b - a) (n - 1 - i) / (n - 1) from the middle on, as torch does.
    """
    if any(isinstance(end, torch.Tensor) for end in call.args[:2]):
        return _range_between(call)
    value = _make_float64(call)
    return call.make(value, value.abs().mul_(COMPUTED_UNITS * call.arithmetic.unit_roundoff))


def _range_between(call: Call) -> Any:
    first, last = (_as_number(call, end) for end in call.args[:2])
    steps, device = call.args[2], first.device
    result = first.expand(steps)
    if steps > 1:
        place = torch.arange(steps, dtype=torch.float64, device=device)
        share = place / (steps - 1)
        weight = torch.where(place < steps // 2, share, 1.0 - share)
        offset = (last - first) * call.make(weight)
        # Two more roundings of what lies between the start and here: of a step, and of so many of them.
        own = (to_operand(last - first)[0] * share).abs() * (2.0 * call.arithmetic.unit_roundoff)
        offset = offset + call.make(torch.zeros_like(own), own)
        result = torch.where(place < steps // 2, first + offset, last - offset)
        result = torch.where(place == 0, first, result)
    if call.name == "linspace":
        return result
    return torch.pow(call.argument(3, "base", 10.0), result)


def _as_number(call: Call, end: Any) -> Any:
    value, error = to_operand(call.follow(end) if isinstance(end, torch.Tensor) else float(end))
    return call.make(torch.as_tensor(value, dtype=torch.float64), error)


def _make_float64(call: Call) -> torch.Tensor:
    arguments = [_to_literal(call, argument) for argument in call.args]
    result: torch.Tensor = call.func(*arguments, **{**call.kwargs, "dtype": torch.float64})
    return result


@rule(
    "empty_like", "full_like", "new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros",
    "ones_like", "zeros_like",
)  # fmt: skip
def make_like(call: Call) -> Any:
    """A tensor of another's shape or dtype."""
    model = call.args[0].value if type(call.args[0]) is Bounded else call.args[0]
    dtype = call.kwargs.get("dtype")
    wide = {"dtype": torch.float64} if dtype is not None and dtype.is_floating_point else {}
    others = [_to_literal(call, argument) for argument in call.args[1:]]
    result = call.func(model, *others, **{**call.kwargs, **wide})
    return call.make(result.double()) if result.is_floating_point() else result


@rule("fill", "zero")
def fill(call: Call) -> Any:
    """Every element overwritten by one number, which may be bounded itself."""
    model = call.args[0].value if type(call.args[0]) is Bounded else call.args[0]
    number, error = to_operand(_to_literal(call, call.argument(1, "value", 0)))
    value = torch.as_tensor(number, device=model.device).to(model.dtype).expand(model.shape)
    return call.make(value, None if error is None else error.expand(model.shape))


def _to_literal(call: Call, argument: Any) -> Any:
    return call.arithmetic.literal(argument) if isinstance(argument, float) else argument
