"""Rule 2: ops without a rounding of their own, evaluated at both ends of their operands' intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from gpuemu.reference.bounded import Bounded, no_error
from gpuemu.reference.elementwise import EXACT, elementwise, to_operand
from gpuemu.reference.registry import rule

if TYPE_CHECKING:
    from gpuemu.reference.dispatch import Evaluation

# Selecting and negating storage numbers gives storage numbers again.
KEEPS_RAW = frozenset({"neg", "abs", "relu", "maximum", "minimum", "sign", "fmax", "fmin"})


def is_raw(*arguments: Any) -> bool:
    """Whether all of these hold storage numbers (0 is one in every format)."""
    return all(a.raw if type(a) is Bounded else isinstance(a, (int, float)) and a == 0 for a in arguments)


@rule("neg")
def negate(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """-x: the error stays."""
    value, error = to_operand(args[0])
    return evaluation.make(value.neg(), error, is_raw(args[0]))


@rule(
    "abs", "relu", "sign", "sgn", "round", "floor", "ceil", "trunc", "clamp", "clamp_min", "clamp_max", "hardtanh",
    "relu6", "threshold", "hardshrink", "maximum", "minimum", "fmax", "fmin",
)  # fmt: skip
def exact(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Ops whose result is a selection among their operands or an exact rounding of them."""
    literal = evaluation.arithmetic.literal
    positions = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor)]
    fixed = [literal(a) if isinstance(a, float) else a for a in args]
    kwargs = {k: to_operand(a)[0] if isinstance(a, torch.Tensor) else a for k, a in kwargs.items()}

    def function(*values: Any) -> torch.Tensor:
        arguments = list(fixed)
        for position, value in zip(positions, values, strict=True):
            arguments[position] = value
        result: torch.Tensor = func(*arguments, **kwargs)
        return result

    keeps = func._schema.name.removeprefix("aten::") in KEEPS_RAW and is_raw(*(args[i] for i in positions))
    return elementwise(evaluation, function, [to_operand(args[i]) for i in positions], EXACT, raw=keeps)


@rule("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Selection; where a rounding may flip the condition, either branch is legitimate."""
    return select(evaluation, args[0], args[1], args[2])


@rule("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`where` with a number."""
    return select(evaluation, args[1], args[2], args[0])


def select(evaluation: Evaluation, condition: Any, chosen: Any, other: Any) -> Any:
    """`chosen` where the condition holds, else `other`; any of the three may be bounded, the branches numbers."""
    holds, flips = condition, None
    if type(condition) is Bounded:
        holds, flips = condition.value, condition.error
    branches = [_branch(evaluation, holds.device, argument) for argument in (chosen, other)]
    if any(value.is_floating_point() for value, _ in branches):
        branches = [(v.double(), None if e is None else e.double()) for v, e in branches]
    (a, error_a), (b, error_b) = branches
    value = torch.where(holds, a, b)
    raw = all(type(x) is Bounded and x.raw or _is_mask_number(x) for x in (chosen, other))
    if error_a is None and error_b is None and flips is None:
        return evaluation.make(value, None, raw)
    error_a, error_b = (no_error(v).double() if e is None else e.double() for v, e in branches)
    error = torch.where(holds, error_a, error_b)
    if flips is not None:
        a, b = a.double(), b.double()
        distance = torch.where(a == b, 0.0, (a - b).abs()).nan_to_num(nan=torch.inf)
        error = torch.where(flips, distance + torch.maximum(error_a, error_b), error)
    return evaluation.make(value, error > 0 if value.dtype == torch.bool else error, raw)


def _branch(
    evaluation: Evaluation, device: torch.device, argument: Any
) -> tuple[torch.Tensor, torch.Tensor | None]:
    if type(argument) is Bounded:
        return argument.value, argument.error
    if isinstance(argument, torch.Tensor):
        return (argument.double() if argument.is_floating_point() else argument), None
    if isinstance(argument, float):
        return torch.tensor(evaluation.arithmetic.literal(argument), dtype=torch.float64, device=device), None
    return torch.tensor(argument, device=device), None


def _is_mask_number(argument: Any) -> bool:
    """Numbers that every storage dtype holds and that masks are made of."""
    if isinstance(argument, torch.Tensor):
        return False
    return argument in (0, 1, float("inf"), float("-inf"))
