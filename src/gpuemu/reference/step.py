"""What the rules work with: operands with errors, one evaluation step, and what an op may lose by itself."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from gpuemu.reference.arithmetic import Arithmetic
from gpuemu.reference.bounded import Bounded
from gpuemu.reference.constants import number_tensor, scalar
from gpuemu.reference.extent import Extent, extent_of, is_positive, is_shared, measure, size_of, to_numbers

Tensor = torch.Tensor
# A number or tensor, and its error (None: exact).
Operand = tuple[Any, Tensor | None]
Function = Callable[..., Tensor]
# From the largest magnitude of each operand to that of the result and of each partial derivative.
Growth = Callable[..., tuple[float, tuple[float, ...]]]
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
    operands (sums may be re-arranged), or of the argument, which the result never exceeds; floor: and at least
    this (natural intermediates that may cancel, rule 4).
    perturbed: arguments may carry another 2u|x| (scaled or folded arguments, rule 4). certificate: a
    representable result of exact operands is exact (rule 8). divides: an intermediate reciprocal may be flushed
    to zero.
    margin: distance of an operand (number `edged`) to the edge of the domain, negative outside. pole: the
    function is infinite at that edge, and an operand that may be flushed to zero counts as touching it.
    headroom: natural intermediates may be this many times larger than the result, and overflow.
    dip: depth of a minimum that may lie between the corners of a wide interval. partial: the closed form
    overwrites its buffer with all there is, the op's own rounding included, which may not concern every
    element; it adds the perturbation itself.
    growth: bounds of result and slopes by the operands' magnitudes, which make looking at extremes needless.
    ceiling: the result's magnitude never exceeds this.
    positive: no result is negative, always or if no operand is.
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
    partial: bool = False
    growth: Growth | None = None
    ceiling: float = float("inf")
    positive: Literal["always", "with operands"] | None = None


EXACT = Loss()


class Step:
    """One evaluation of a function: its operands' values and errors (None: exact) and its result.

    widest: largest error of an operand, NaN if one is NaN; only known once the operands are perturbed, or
    foreseen from the operands' extents (then perturbation included). extent: that of the result, if it is known
    to be in range. demands: what a closed form takes for granted, to be looked at when the result is: a tensor
    of one element, the least and the most it must be.
    """

    __slots__ = ("arithmetic", "demands", "errors", "extent", "result", "values", "widest")

    def __init__(
        self,
        arithmetic: Arithmetic,
        values: Sequence[Any],
        errors: Sequence[Tensor | None],
        result: Tensor,
        widest: float | None = None,
        extent: Extent | None = None,
    ) -> None:
        self.arithmetic = arithmetic
        self.values = values
        self.errors = errors
        self.result = result
        self.widest = widest
        self.extent = extent
        self.demands: list[tuple[Tensor, float, float]] = []

    def demand(self, values: Tensor, least: float) -> None:
        """Take for granted that no element is less, or NaN."""
        if values.numel():
            self.demands.append((values.min(), least, math.inf))

    def demand_known(self) -> None:
        """Take for granted that no operand may be any number or NaN."""
        known = [error for error in self.errors if error is not None and error.numel()]
        self.demands += [(error.max(), -math.inf, sys.float_info.max) for error in known]

    @property
    def is_exact(self) -> bool:
        return all(error is None for error in self.errors)

    def is_within(self, limit: float) -> bool:
        """Whether the perturbed operands' errors are known not to exceed a limit."""
        return self.widest is not None and self.widest <= limit

    def perturbed(self) -> Step:
        """The step with 2u|x| added to the operands' errors, which a closed form may overwrite (rule 4)."""
        pairs = zip(self.values, self.errors, strict=True)
        errors = [perturbation(self.arithmetic, value, error) for value, error in pairs]
        widest = self.widest
        if widest is None:
            largest = to_numbers([error.max() for error in errors if error.numel()])
            widest = math.nan if any(map(math.isnan, largest)) else max(largest, default=0.0)
        return Step(self.arithmetic, self.values, errors, self.result, widest, self.extent)


def perturbation(arithmetic: Arithmetic, value: Tensor, error: Tensor | None) -> Tensor:
    """e + 2u|x|: a new tensor."""
    size, more = size_of(value), 2.0 * arithmetic.unit_roundoff
    out = None if is_shared(value) else size
    return torch.mul(size, more, out=out) if error is None else torch.add(error, size, alpha=more, out=out)


# Adds the propagated operand errors to a buffer of the result's shape; false if its formula does not hold here.
Propagate = Callable[[Step, Tensor], bool]


def to_operand(argument: Any, arithmetic: Arithmetic | None = None, beside: Tensor | None = None) -> Operand:
    """Value and error of an argument; integers and bools as float64.

    Args:
        arithmetic: if given, a number is taken as its literal, with the error of holding it in that arithmetic.
        beside: the other operand, on whose device that error is placed.
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
    return number, number_tensor(off, None if beside is None else beside.device) if off else None


def is_lossy(step: Step) -> Tensor:
    """Where a result of exact operands is rounded or flushed: not representable, or subnormal (rule 8)."""
    result = step.result
    exact = step.arithmetic.fits(result)
    if bool(exact.any()):
        exact &= (result.abs() >= step.arithmetic.underflow) | (result == 0)
    return exact.logical_not_()


def magnitude(argument: Any) -> Any:
    """|x| of a tensor, not to be written to, or of a number."""
    return size_of(argument) if isinstance(argument, Tensor) else abs(argument)


def own_error(step: Step, loss: Loss, out: Tensor | None = None) -> Tensor:
    """The op's own rounding and flush to zero: a new tensor of the result's shape, or `out` of that shape."""
    result = step.result
    if not loss.units:
        return torch.zeros_like(result) if out is None else out.zero_()
    arithmetic, values = step.arithmetic, step.values
    # Only rule 4's functions perturb their arguments: those that fast-math approximates.
    units = max(loss.units, arithmetic.function_units) if loss.perturbed else loss.units
    share, omega = units * arithmetic.unit_roundoff, arithmetic.underflow
    flush = omega * (1.0 + LARGEST_SCALED_FLUSH) if loss.perturbed and loss.floor else omega
    if loss.ceiling <= loss.floor and loss.scale == "result":
        return (torch.empty_like(result) if out is None else out).fill_(share * loss.floor + flush)
    scale: Any = values[0] if loss.scale == "argument" else result
    size = size_of(scale, out if scale.shape == result.shape else None)
    if out is None and not is_shared(scale):
        out = size
    if loss.floor:
        size = out = torch.clamp(size, min=loss.floor, out=out)
    # A sum of operands that are not negative is no smaller than any of them.
    for operand in values if loss.scale == "operands" and not is_positive(result) else ():
        if isinstance(operand, Tensor):
            size = out = torch.maximum(size, size_of(operand), out=out)
        else:
            size = out = torch.clamp(size, min=abs(operand), out=out)
    error = torch.add(scalar(flush), size, alpha=share, out=out)
    if loss.perturbed and not loss.floor:  # beside a floor the largest such flush is nothing
        add_scaled_flush(step, error)
    elif loss.divides and isinstance(values[0], Tensor) and not _has_reciprocal(step):
        error.add_(size_of(values[0]), alpha=omega)
    return error


def _has_reciprocal(step: Step) -> bool:
    """Whether the divisor is known to be small enough for its reciprocal not to be flushed to zero.

    Not in 16 bits, where little is.
    """
    if step.arithmetic.is_coarse:
        return False
    divisor = extent_of(step.values[-1], step.errors[-1])
    return divisor is not None and divisor.reach * step.arithmetic.underflow < 0.5


def add_scaled_flush(step: Step, error: Tensor) -> None:
    """omega |x|, for |x| up to a limit; read off the perturbed error of x where that is known to be small."""
    omega, perturbation = step.arithmetic.underflow, 2.0 * step.arithmetic.unit_roundoff
    perturbed = step.errors[0]
    if perturbed is not None and step.is_within(perturbation * LARGEST_SCALED_FLUSH):
        error.add_(perturbed, alpha=omega / perturbation)
    else:
        error.add_(step.values[0].abs().clamp_(max=LARGEST_SCALED_FLUSH), alpha=omega)


def is_within(errors: Tensor, limit: float) -> bool:
    """Whether no error exceeds a limit; NaN does."""
    return bool(errors.amax() <= limit)


def is_settled(arithmetic: Arithmetic, value: Tensor, error: Tensor | None, headroom: float = 1.0) -> bool:
    """Whether all values and errors are finite and within the compute format's range, by their extremes."""
    extent = measure(value, error)
    return extent is not None and headroom * extent.reach <= arithmetic.overflow


def corner_values(function: Function, values: Sequence[Any], errors: Sequence[Tensor | None]) -> list[Tensor]:
    """The function at every corner of the operands' intervals."""
    ends = [
        (value,) if error is None else (value + error, value - error)
        for value, error in zip(values, errors, strict=True)
    ]
    return [function(*corner) for corner in itertools.product(*ends)]
