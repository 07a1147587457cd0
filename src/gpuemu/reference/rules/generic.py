"""Rule 9: an op without a rule is evaluated at random points of its operands' intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from gpuemu.reference.bounded import Bounded

if TYPE_CHECKING:
    from gpuemu.reference.dispatch import Evaluation

Tensor = torch.Tensor
DRAWS = 8
SEED = 0x5EED
FACTOR = 4.0  # the largest of eight draws underestimates the extreme
UNITS = 8.0


def generic(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Four times the largest deviation of 8 draws from [-e, e] + 2u|x|, plus 8 u |v| (section 2.3 rule 9).

    The draws come from a generator with a fixed seed, so that the bound is a function of the inputs.
    """
    evaluation.generic[func._schema.name.removeprefix("aten::")] = None
    values = tree_map(_to_value, (args, kwargs))
    outputs, structure = tree_flatten(func(*values[0], **values[1]))
    deviations = [torch.zeros(_shape(output), dtype=torch.float64) for output in outputs]
    random = torch.Generator().manual_seed(SEED)  # on the CPU, so that every device draws the same
    for _ in range(DRAWS):
        drawn = tree_map(lambda argument: _draw(evaluation, argument, random), (args, kwargs))
        for i, shifted in enumerate(tree_flatten(func(*drawn[0], **drawn[1]))[0]):
            deviations[i] = _larger(deviations[i], outputs[i], shifted)
    unknown = any(_is_unknown(argument) for argument in tree_flatten((args, kwargs))[0])
    results = [
        _finish(evaluation, output, deviation, unknown)
        for output, deviation in zip(outputs, deviations, strict=True)
    ]
    return tree_unflatten(results, structure)


def _to_value(argument: Any) -> Any:
    if type(argument) is Bounded:
        return argument.value
    if isinstance(argument, Tensor) and argument.is_floating_point():
        return argument.double()
    return argument


def _shape(output: Any) -> torch.Size:
    return output.shape if isinstance(output, Tensor) else torch.Size()


def _draw(evaluation: Evaluation, argument: Any, random: torch.Generator) -> Any:
    """A float argument moved to a random point of its interval; anything else as it is."""
    value = _to_value(argument)
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return value
    reach = value.abs() * (2.0 * evaluation.arithmetic.unit_roundoff)
    if type(argument) is Bounded and argument.error is not None:
        reach = reach + argument.error
    point = torch.rand(value.shape, generator=random, dtype=torch.float64).mul_(2.0).sub_(1.0).to(value.device)
    return torch.where(value.isfinite() & reach.isfinite(), value + point * reach, value)


def _larger(deviation: Tensor, output: Any, shifted: Any) -> Tensor:
    """The larger of a deviation and the distance between two results; inf where one of them only is NaN."""
    if not isinstance(output, Tensor):
        return deviation
    if output.shape != shifted.shape:
        return torch.full(output.shape, torch.inf, dtype=torch.float64, device=output.device)
    a, b = output.double(), shifted.double()
    distance = torch.where((a == b) | (a.isnan() & b.isnan()), 0.0, (a - b).abs())
    return torch.maximum(deviation.to(output.device), distance.nan_to_num(nan=torch.inf))


def _is_unknown(argument: Any) -> bool:
    """Whether nothing is known of some element, or a bool or integer may flip: draws cannot show that."""
    if type(argument) is not Bounded or argument.error is None:
        return False
    if argument.value.is_floating_point():
        return not bool(argument.error.isfinite().all())
    return bool((argument.error != 0).any())


def _finish(evaluation: Evaluation, output: Any, deviation: Tensor, unknown: bool) -> Any:
    if not isinstance(output, Tensor):
        return output
    if not output.is_floating_point():
        flips = deviation > 0 if output.dtype == torch.bool else deviation * FACTOR
        return evaluation.make(output, torch.ones_like(flips) if unknown else flips)
    arithmetic = evaluation.arithmetic
    error = deviation * FACTOR + output.abs() * (UNITS * arithmetic.unit_roundoff) + arithmetic.underflow
    overflowed = output.isfinite() & ~(output.abs() + error <= arithmetic.overflow)
    error = torch.where(overflowed | (deviation == torch.inf), torch.inf, error)
    error = torch.where(output.isfinite() | (error == torch.inf), error, 0.0)
    return evaluation.make(output, torch.full_like(error, torch.inf) if unknown else error)
