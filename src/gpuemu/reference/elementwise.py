"""Elementwise ops: propagation of operand errors, the op's own rounding, and what overflows (rules 2 to 4, 7).

Every op has a fast path, which is right as long as everything is finite and within range, and a careful path,
which is taken as soon as one element is not.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch

from gpuemu.reference.arithmetic import Arithmetic
from gpuemu.reference.bounded import Bounded

if TYPE_CHECKING:
    from gpuemu.reference.dispatch import Evaluation

Tensor = torch.Tensor
# A number or tensor, and its error (None: exact).
Operand = tuple[Any, Tensor | None]
Function = Callable[..., Tensor]
# Adds the propagated operand errors to a buffer of the result's shape; false if the formula does not hold here.
Propagate = Callable[[Arithmetic, Tensor, Sequence[Any], Sequence[Tensor | None], Tensor], bool]
# The largest argument for which a flush of an intermediate scales with the argument: functions that decay have
# decayed to 0 in float64 long before.
LARGEST_SCALED_FLUSH = 1e4


@dataclass(frozen=True)
class Loss:
    """What one elementwise op may lose by itself.

    units: rounding in units of u * magnitude. scale: the magnitude is that of the result, or also of all operands
    (sums may be re-arranged), or also of the argument; floor: and at least this (natural intermediates that may
    cancel, rule 4).
    perturbed: arguments may carry another 2u|x| (scaled or folded arguments, rule 4). certificate: a representable
    result of exact operands is exact (rule 8). divides: an intermediate reciprocal may be flushed.
    margin: distance of an operand (number `edged`) to the edge of the domain, negative outside. pole: the function
    is infinite at that edge, and an operand that may be flushed to zero counts as touching it.
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


EXACT = Loss()


def to_operand(argument: Any) -> Operand:
    """Value and error of an argument; integers and bools as float64."""
    if type(argument) is Bounded:
        value, error = argument.value, argument.error
        if value.dtype is torch.float64:
            return value, error
        return value.double(), None if error is None else error.double()
    if isinstance(argument, Tensor):
        return argument.double(), None
    return argument, None


def elementwise(
    evaluation: Evaluation,
    function: Function,
    operands: Sequence[Operand],
    loss: Loss,
    propagate: Propagate | None = None,
    raw: bool = False,
) -> Bounded:
    """Value and error of an elementwise function.

    Args:
        propagate: closed form of the propagated error; None evaluates at the corners of the operands' intervals.
        raw: whether the result holds storage numbers.
    """
    values = [value for value, _ in operands]
    errors = [error for _, error in operands]
    value = function(*values)
    arithmetic = evaluation.arithmetic
    exact = all(error is None for error in errors)
    if exact and not loss.perturbed and loss.margin is None:
        if not loss.units:
            return evaluation.make(value, None, raw)
        error = own_error(arithmetic, loss, value, values)
        if loss.certificate and arithmetic.compute is not None:
            error = _certify(arithmetic, value, error)
            if error is None:
                return evaluation.make(value, None, raw)
        safe = True
    else:
        errors = _perturbed(arithmetic, loss, values, errors)
        error = own_error(arithmetic, loss, value, values)
        safe = (propagate or _add_corners(function))(arithmetic, error, values, errors, value)
    if safe and is_settled(arithmetic, value, error):
        return evaluation.make(value, error)
    return evaluation.make(value, careful_error(arithmetic, function, operands, loss, value))


def _certify(arithmetic: Arithmetic, value: Tensor, error: Tensor) -> Tensor | None:
    """Without the rounding error where the result is representable and no subnormal (rule 8)."""
    lossy = ~arithmetic.is_representable(value)
    tiny = value.abs() < arithmetic.underflow
    lossy |= tiny & (value != 0)
    if not bool(lossy.any()) and is_settled(arithmetic, value, None):
        return None
    return error.mul_(lossy)


def magnitude(argument: Any) -> Any:
    """|x| of a tensor (a new one) or number."""
    return argument.abs() if isinstance(argument, Tensor) else abs(argument)


def own_error(arithmetic: Arithmetic, loss: Loss, value: Tensor, values: Sequence[Any]) -> Tensor:
    """The op's own rounding and flush to zero: a new tensor of the result's shape."""
    if not loss.units:
        return torch.zeros_like(value)
    error = value.abs()
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


def _perturbed(
    arithmetic: Arithmetic, loss: Loss, values: Sequence[Any], errors: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """The operands' errors, with 2u|x| added for a transcendental function."""
    if not loss.perturbed:
        return list(errors)
    perturbed: list[Tensor | None] = []
    for value, error in zip(values, errors, strict=True):
        if isinstance(value, Tensor):
            more = value.abs().mul_(2.0 * arithmetic.unit_roundoff)
            perturbed.append(more if error is None else more.add_(error))
        else:
            perturbed.append(torch.tensor(2.0 * arithmetic.unit_roundoff * abs(value), dtype=torch.float64))
    return perturbed


def is_settled(arithmetic: Arithmetic, value: Tensor, error: Tensor | None) -> bool:
    """Whether all values and errors are finite and within the compute format's range, by their extremes."""
    if value.numel() == 0:
        return True
    extremes = list(torch.aminmax(value))  # NaN goes through, and then compares false
    if error is not None:
        extremes.append(error.max())
    low, high, *largest = torch.stack(extremes).tolist() if value.is_cuda else map(float, extremes)
    return max(-low, high) + sum(largest) <= arithmetic.overflow


def _corner_values(function: Function, values: Sequence[Any], errors: Sequence[Tensor | None]) -> list[Tensor]:
    """The function at every corner of the operands' intervals."""
    ends = [
        (value,) if error is None else (value + error, value - error)
        for value, error in zip(values, errors, strict=True)
    ]
    return [function(*corner) for corner in itertools.product(*ends)]


def _add_corners(function: Function) -> Propagate:
    """Propagation by two-sided evaluation: exact for functions monotone in each argument (rule 2)."""

    def propagate(
        arithmetic: Arithmetic,
        error: Tensor,
        values: Sequence[Any],
        errors: Sequence[Tensor | None],
        value: Tensor,
    ) -> bool:
        deviation: Tensor | None = None
        for corner in _corner_values(function, values, errors):
            distance = corner.sub_(value).abs_()
            deviation = distance if deviation is None else torch.maximum(deviation, distance, out=deviation)
        if deviation is not None:
            error.add_(deviation)
        return True

    return propagate


def careful_error(
    arithmetic: Arithmetic, function: Function, operands: Sequence[Operand], loss: Loss, value: Tensor
) -> Tensor:
    """The error of an elementwise function where some element is not finite or out of range.

    An element's error is inf ("any number is legitimate") where an operand's is, where an interval touches a pole
    or leaves the domain, where the compute format can overflow, and where an infinity arises from finite operands
    other than at a pole. NaN and infinities that come from non-finite operands carry no error.
    """
    shape, device = value.shape, value.device
    values = [_as_tensor(operand, device) for operand, _ in operands]
    explicit = [
        torch.zeros_like(v) if error is None else error for v, (_, error) in zip(values, operands, strict=True)
    ]
    unknown = torch.zeros(shape, dtype=torch.bool, device=device)
    infinite_operand = torch.zeros(shape, dtype=torch.bool, device=device)
    finite_errors: list[Tensor] = []
    for v, e in zip(values, explicit, strict=True):
        unknown |= ~e.isfinite()
        infinite_operand |= ~v.isfinite()
        more = v.abs() * (2.0 * arithmetic.unit_roundoff) if loss.perturbed else 0.0
        finite_errors.append(torch.where(v.isfinite() & e.isfinite(), e + more, 0.0))
    deviation = torch.zeros_like(value)
    for corner in _corner_values(function, values, finite_errors):
        distance = torch.where(corner == value, 0.0, (corner - value).abs())
        deviation = torch.maximum(deviation, distance.nan_to_num(nan=torch.inf))
    rounding = _careful_rounding(arithmetic, loss, value, values, [e for _, e in operands])
    # A correctly rounded op overflows by its result before rounding, the others by what they may return.
    reach = deviation if loss.units == 1.0 else deviation + rounding
    limit = arithmetic.overflow * (1.0 + arithmetic.unit_roundoff / 2.0 * (loss.units == 1.0))
    error = deviation + rounding
    overflowed = value.isfinite() & (value.abs() + reach > limit)
    arisen = value.isinf() & ~infinite_operand
    if loss.margin is not None:
        margin, uncertain = loss.margin(values[loss.edged]), finite_errors[loss.edged]
        reaches_edge = margin - uncertain < (arithmetic.underflow if loss.pole else 0.0)
        at_edge = (margin == 0) & (uncertain == 0)
        unknown |= reaches_edge & ~at_edge & (margin + uncertain >= 0)
        if loss.pole:
            arisen &= ~at_edge
    error = torch.where(value.isfinite(), error, 0.0)
    return torch.where(unknown | overflowed | arisen, torch.inf, error)


def _careful_rounding(
    arithmetic: Arithmetic, loss: Loss, value: Tensor, values: Sequence[Tensor], errors: Sequence[Tensor | None]
) -> Tensor:
    if not loss.units:
        return torch.zeros_like(value)
    clean = [v.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0) for v in values]
    finite_value = value.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    rounding = own_error(arithmetic, loss, finite_value, clean)
    if loss.certificate and all(error is None for error in errors):
        tiny = (value.abs() < arithmetic.underflow) & (value != 0)
        rounding = torch.where(arithmetic.is_representable(value) & ~tiny, 0.0, rounding)
    return rounding


def _as_tensor(operand: Any, device: torch.device) -> Tensor:
    if isinstance(operand, Tensor):
        return operand
    return torch.tensor(operand, dtype=torch.float64, device=device)
