"""What the rules work with: operands with errors, one evaluation step, and what an op may lose by itself."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from gpuemu.reference.arithmetic import Arithmetic
from gpuemu.reference.bounded import Bounded

Tensor = torch.Tensor
# A number or tensor, and its error (None: exact).
Operand = tuple[Any, Tensor | None]
Function = Callable[..., Tensor]
# The largest argument for which a flush of an intermediate scales with the argument: functions that decay have
# decayed to 0 in float64 long before.
LARGEST_SCALED_FLUSH = 1e4
# Intervals up to this half-width have their extremes at their ends even beside a minimum: there, the far end
# deviates more than the minimum does.
WIDE = 0.125


@dataclass(frozen=True)
class Loss:
    """What one elementwise op may lose by itself.

    units: rounding in units of u * magnitude. scale: the magnitude is that of the result, or also of all
    operands (sums may be re-arranged), or also of the argument; floor: and at least this (natural intermediates
    that may cancel, rule 4).
    perturbed: arguments may carry another 2u|x| (scaled or folded arguments, rule 4). certificate: a
    representable result of exact operands is exact (rule 8). divides: an intermediate reciprocal may be flushed
    to zero.
    margin: distance of an operand (number `edged`) to the edge of the domain, negative outside. pole: the
    function is infinite at that edge, and an operand that may be flushed to zero counts as touching it.
    headroom: natural intermediates may be this many times larger than the result, and overflow.
    dip: depth of a minimum that may lie between the corners of a wide interval.
    """

    units: float = 0.0
    scale: Literal["result", "operands", "argument"] = "result"
    floor: float = 0.0
    perturbed: bool = False
    certificate: bool = False
    divides: bool = False
    margin: Callable[[Tensor], Tensor] | None = None
    edged: int = -1
    pole: bool = False
    headroom: float = 1.0
    dip: float = 0.0


EXACT = Loss()


class Step:
    """One evaluation of a function: its operands' values and errors (None: exact) and its result."""

    __slots__ = ("arithmetic", "errors", "result", "values")

    def __init__(
        self, arithmetic: Arithmetic, values: Sequence[Any], errors: Sequence[Tensor | None], result: Tensor
    ) -> None:
        self.arithmetic = arithmetic
        self.values = values
        self.errors = errors
        self.result = result

    @property
    def is_exact(self) -> bool:
        return all(error is None for error in self.errors)


# Adds the propagated operand errors to a buffer of the result's shape; false if its formula does not hold here.
Propagate = Callable[[Step, Tensor], bool]


def to_operand(argument: Any, arithmetic: Arithmetic | None = None) -> Operand:
    """Value and error of an argument; integers and bools as float64.

    Args:
        arithmetic: if given, a number is taken as its literal, with the error of holding it in that arithmetic.
    """
    if type(argument) is Bounded:
        value, error = argument.value, argument.error
        if value.dtype is torch.float64:
            return value, error
        return value.double(), None if error is None else error.double()
    if isinstance(argument, Tensor):
        return argument.double(), None
    if arithmetic is None or not isinstance(argument, float):
        return argument, None
    number = arithmetic.literal(argument)
    off = arithmetic.constant_error(number)
    return number, torch.tensor(off, dtype=torch.float64) if off else None


def is_lossy(step: Step) -> Tensor:
    """Where a result of exact operands is rounded or flushed: not representable, or subnormal (rule 8)."""
    result = step.result
    exact = step.arithmetic.is_representable(result)
    if bool(exact.any()):
        exact &= (result.abs() >= step.arithmetic.underflow) | (result == 0)
    return exact.logical_not_()


def magnitude(argument: Any) -> Any:
    """|x| of a tensor (a new one) or number."""
    return argument.abs() if isinstance(argument, Tensor) else abs(argument)


def own_error(step: Step, loss: Loss) -> Tensor:
    """The op's own rounding and flush to zero: a new tensor of the result's shape."""
    if not loss.units:
        return torch.zeros_like(step.result)
    error, arithmetic, values = step.result.abs(), step.arithmetic, step.values
    if loss.floor:
        error.clamp_(min=loss.floor)
    for operand in values if loss.scale == "operands" else values[:1] if loss.scale == "argument" else ():
        if isinstance(operand, Tensor):
            torch.maximum(error, operand.abs(), out=error)
        else:
            error.clamp_(min=abs(operand))
    error.mul_(loss.units * arithmetic.unit_roundoff).add_(arithmetic.underflow)
    scaled = magnitude(values[0]) if loss.perturbed or loss.divides else None
    if isinstance(scaled, Tensor):
        if loss.perturbed:
            scaled = scaled.clamp_(max=LARGEST_SCALED_FLUSH)
        error.add_(scaled, alpha=arithmetic.underflow)
    return error


def is_narrow(error: Tensor | None, limit: float) -> bool:
    """Whether no error exceeds a limit (NaN does)."""
    return error is None or error.numel() == 0 or bool(error.max() <= limit)


def is_settled(arithmetic: Arithmetic, value: Tensor, error: Tensor | None, headroom: float = 1.0) -> bool:
    """Whether all values and errors are finite and within the compute format's range, by their extremes."""
    if value.numel() == 0:
        return True
    extremes = list(torch.aminmax(value))  # NaN goes through, and then compares false
    if error is not None:
        extremes.append(error.max())
    low, high, *largest = torch.stack(extremes).tolist() if value.is_cuda else [float(e) for e in extremes]
    return bool(headroom * (max(-low, high) + sum(largest)) <= arithmetic.overflow)


def corner_values(function: Function, values: Sequence[Any], errors: Sequence[Tensor | None]) -> list[Tensor]:
    """The function at every corner of the operands' intervals."""
    ends = [
        (value,) if error is None else (value + error, value - error)
        for value, error in zip(values, errors, strict=True)
    ]
    return [function(*corner) for corner in itertools.product(*ends)]
