"""Rule 9: an op without a rule is evaluated at random points of its operands' intervals."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from gpuemu.reference.bounded import Bounded
from gpuemu.reference.errors import UnmappedReferenceError
from gpuemu.reference.registry import Call

Tensor = torch.Tensor
DRAWS = 8
SEED = 0x5EED
FACTOR = 4.0  # the largest of eight draws underestimates the extreme
UNITS = 8.0


def generic(call: Call) -> Any:
    """Four times the largest deviation of 8 draws from [-e, e] + 2u|x|, plus 8 u |v| (section 2.3 rule 9).

    The draws come from a generator with a fixed seed, so that the bound is a function of the inputs.
    """
    call.evaluation.generic[call.name] = None
    arguments = (call.args, call.kwargs)
    args, kwargs = tree_map(_to_value, arguments)
    outputs, structure = tree_flatten(call.func(*args, **kwargs))
    if any(isinstance(output, Tensor) and output.is_complex() for output in outputs):
        raise UnmappedReferenceError(f"{call.func} makes complex numbers; write it with real ones")
    deviations = [torch.zeros((), dtype=torch.float64)] * len(outputs)
    random = torch.Generator().manual_seed(SEED)  # on the CPU, so that every device draws the same
    for _ in range(DRAWS):
        args, kwargs = tree_map(lambda argument: _draw(call, argument, random), arguments)
        shifted = tree_flatten(call.func(*args, **kwargs))[0]
        deviations = [larger_deviation(*each) for each in zip(deviations, outputs, shifted, strict=True)]
    unknown = any(_is_unknown(argument) for argument in tree_flatten(arguments)[0])
    results = [_finish(call, *each, unknown) for each in zip(outputs, deviations, strict=True)]
    return tree_unflatten(results, structure)


def _to_value(argument: Any) -> Any:
    if type(argument) is Bounded:
        return argument.value
    if isinstance(argument, Tensor) and argument.is_floating_point():
        return argument.double()
    return argument


def _draw(call: Call, argument: Any, random: torch.Generator) -> Any:
    """A float argument moved to a random point of its interval; anything else as it is."""
    value = _to_value(argument)
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return value
    reach = value.abs() * (2.0 * call.arithmetic.unit_roundoff)
    if type(argument) is Bounded and argument.error is not None:
        reach = reach + argument.error
    point = torch.rand(value.shape, generator=random, dtype=torch.float64).mul_(2.0).sub_(1.0).to(value.device)
    return torch.where(value.isfinite() & reach.isfinite(), value + point * reach, value)


def larger_deviation(deviation: Tensor, output: Any, shifted: Any) -> Tensor:
    """The larger of a deviation and the distance between two results; inf where one of them only is NaN."""
    if not isinstance(output, Tensor):
        return deviation
    if output.shape != shifted.shape:
        return torch.full(output.shape, torch.inf, dtype=torch.float64, device=output.device)
    a, b = output.double(), shifted.double()
    distance = torch.where((a == b) | (a.isnan() & b.isnan()), 0.0, (a - b).abs())
    return torch.maximum(deviation.to(output.device), distance.nan_to_num(nan=torch.inf, posinf=torch.inf))


def _is_unknown(argument: Any) -> bool:
    """Whether nothing is known of some element, or a bool or integer may flip: draws cannot show that."""
    if type(argument) is not Bounded or argument.error is None:
        return False
    if argument.value.is_floating_point():
        return not bool(argument.error.isfinite().all())
    return bool((argument.error != 0).any())


def _finish(call: Call, output: Any, deviation: Tensor, unknown: bool) -> Any:
    if not isinstance(output, Tensor):
        return output
    if output.dtype == torch.bool:
        return call.make(output, torch.ones_like(output) if unknown else deviation.expand(output.shape) > 0)
    error = deviation * FACTOR
    if output.is_floating_point():
        arithmetic = call.arithmetic
        error = error + output.abs() * (UNITS * arithmetic.unit_roundoff) + arithmetic.underflow
        error = torch.where(output.abs() + error <= arithmetic.overflow, error, torch.inf)
        error = torch.where(output.isfinite() | (deviation == torch.inf), error, 0.0)
    error = error.expand(output.shape)
    return call.make(output, torch.full_like(error, torch.inf) if unknown else error)
