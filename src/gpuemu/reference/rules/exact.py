"""Rule 2: ops without a rounding of their own, evaluated at both ends of their operands' intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from gpuemu.reference.bounded import Bounded
from gpuemu.reference.constants import number_tensor
from gpuemu.reference.elementwise import elementwise
from gpuemu.reference.extent import Extent, extent_of, mark, union
from gpuemu.reference.registry import Call, rule
from gpuemu.reference.rules.generic import generic
from gpuemu.reference.step import EXACT, Loss, Operand, to_operand

Tensor = torch.Tensor

# Selecting, negating and taking the sign of storage numbers gives storage numbers again.
# Never larger than the largest operand, nor steeper than 1 in any.
SELECTION = Loss(growth=lambda *reaches: (max(reaches), (1.0,) * len(reaches)), positive="with operands")
POSITIVE = replace(SELECTION, positive="always")
SELECTIONS = frozenset({"abs", "relu", "relu6"})
KEEPS_RAW = frozenset({"abs", "relu", "maximum", "minimum", "sign", "fmax", "fmin"})


def is_raw(argument: Any) -> bool:
    """Whether an argument holds storage numbers."""
    return type(argument) is Bounded and argument.raw


@rule("nonzero", "nonzero_static", "_unique2", "unique_consecutive", "unique_dim")
def places_or_values(call: Call) -> Any:
    """What depends on every element's exact value: followed where there is no error, else generic."""
    x = call.args[0]
    if x.error is not None and bool((x.error != 0).any()):
        return generic(call)
    result = call.func(x.value, *call.args[1:], **call.kwargs)
    if isinstance(result, Tensor):
        return result
    return tuple(call.make(part, None, is_raw(x)) if part.is_floating_point() else part for part in result)


@rule("neg")
def negate(call: Call) -> Any:
    """-x: the error stays."""
    value, error = to_operand(call.args[0])
    return call.make(value.neg(), error, is_raw(call.args[0]))


@rule(
    "abs",
    "relu",
    "sign",
    "sgn",
    "round",
    "floor",
    "ceil",
    "trunc",
    "relu6",
    "threshold",
    "hardshrink",
)
def exact_unary(call: Call) -> Any:
    """Selections between x and constants, and exact roundings of x."""
    rest = [call.arithmetic.literal(a) if isinstance(a, float) else a for a in call.args[1:]]
    return elementwise(
        call.evaluation,
        lambda x: call.func(x, *rest, **call.kwargs),
        [to_operand(call.args[0])],
        POSITIVE if call.name in SELECTIONS else EXACT,
        raw=call.name in KEEPS_RAW and is_raw(call.args[0]),
    )


@rule("maximum", "minimum", "fmax", "fmin")
def exact_binary(call: Call) -> Any:
    """The larger or smaller of two."""
    raw = is_raw(call.args[0]) and is_raw(call.args[1])
    return elementwise(call.evaluation, call.func, [to_operand(a) for a in call.args], SELECTION, raw=raw)


@rule("clamp", "clamp_min", "clamp_max", "hardtanh")
def clamp(call: Call) -> Any:
    """min(max(x, low), high); either limit may be missing, a number or a tensor."""
    low = high = None
    if call.name == "hardtanh":
        low, high = call.argument(1, "min_val", -1.0), call.argument(2, "max_val", 1.0)
    elif call.name == "clamp":
        low, high = call.argument(1, "min"), call.argument(2, "max")
    elif call.name == "clamp_min":
        low = call.argument(1, "min")
    else:
        high = call.argument(1, "max")
    operands = [to_operand(call.args[0])] + [_limit(call, limit) for limit in (low, high) if limit is not None]

    def clamped(x: Tensor, *limits: Any) -> Tensor:
        rest = iter(limits)
        lowest, highest = (None if limit is None else next(rest) for limit in (low, high))
        return torch.clamp(x, lowest, highest)

    return elementwise(call.evaluation, clamped, operands, SELECTION)


def _limit(call: Call, limit: Any) -> Operand:
    """A limit as a tensor, so that number and tensor limits can be mixed."""
    if isinstance(limit, Tensor):
        return to_operand(limit)
    number, error = to_operand(float(limit), call.arithmetic, call.args[0])
    return number_tensor(number, call.args[0].device), error


@rule("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(call: Call) -> Any:
    """Selection; where a rounding may flip the condition, either branch is legitimate."""
    return select(call, *call.args)


@rule("masked_fill")
def masked_fill(call: Call) -> Any:
    """`where` with a number."""
    x, mask, number = call.args
    return select(call, mask, number, x)


def select(call: Call, condition: Any, chosen: Any, other: Any) -> Any:
    """`chosen` where the condition holds, else `other`: bounded or plain; the branches may be numbers."""
    holds, flips = condition, None
    if type(condition) is Bounded:
        holds, flips = condition.value, condition.error
    branches = [_branch(call, holds.device, argument) for argument in (chosen, other)]
    if any(value.is_floating_point() for value, _ in branches):
        branches = [_as_float(v, e) for v, e in branches]
    (a, error_a), (b, error_b) = branches
    value = torch.where(holds, a, b)
    raw = all(is_raw(x) or _is_mask_number(x) for x in (chosen, other))
    extent = _extent_of_selection(branches, flips is not None)
    if error_a is None and error_b is None and flips is None:
        mark(value, None, extent)
        return call.make(value, None, raw)
    none = number_tensor(0.0, holds.device)
    error_a, error_b = (none if e is None else e.double() for _, e in branches)
    error = torch.where(holds, error_a, error_b)
    if error.shape != value.shape:  # that of an exact branch, which may be larger than all else
        error = error.expand(value.shape)
    if flips is not None:
        a, b = a.double(), b.double()
        distance = torch.where(a == b, 0.0, (a - b).abs()).nan_to_num(nan=torch.inf, posinf=torch.inf)
        error = torch.where(flips, distance + torch.maximum(error_a, error_b), error)
    if value.dtype == torch.bool:
        error = error > 0
    mark(value, error, extent)
    return call.make(value, error, raw)


def _extent_of_selection(branches: Sequence[Operand], may_flip: bool) -> Extent | None:
    """That of both branches; where the condition may flip, they may be as far apart as they are large."""
    extents = [extent_of(*branch) for branch in branches]
    extent = union(extents)
    if extent is None or not may_flip:
        return extent
    apart = sum(each.reach for each in extents if each is not None)
    return Extent(extent.reach + apart, extent.error + apart)


def _branch(call: Call, device: torch.device, argument: Any) -> tuple[Tensor, Tensor | None]:
    if type(argument) is Bounded:
        return argument.value, argument.error
    if isinstance(argument, Tensor):
        return (argument.double() if argument.is_floating_point() else argument), None
    if isinstance(argument, float):
        number, error = to_operand(argument, call.arithmetic)
        return number_tensor(number, device), None if error is None else number_tensor(float(error), device)
    return torch.tensor(argument, device=device), None


def _as_float(value: Tensor, error: Tensor | None) -> Operand:
    if error is None and value.dtype != torch.float64 and value.dim() == 0 and value.device.type == "cpu":
        return number_tensor(float(value)), None
    return value.double(), None if error is None else error.double()


def _is_mask_number(argument: Any) -> bool:
    """Numbers that every storage dtype holds and that masks are made of."""
    return not isinstance(argument, Tensor) and argument in (0, 1, float("inf"), float("-inf"))
