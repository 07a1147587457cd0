"""Calling a reference with arguments whose errors are followed, whatever array library it is written with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from gpuemu.reference.bounded import Bounded
from gpuemu.reference.dispatch import Evaluation
from gpuemu.reference.errors import RandomReferenceError, UnmappedReferenceError, UnsupportedReferenceError
from gpuemu.reference.framework import find_framework
from gpuemu.reference.numpy_array import unwrap, wrap
from gpuemu.reference.rules.generic import DRAWS, FACTOR, SEED, UNITS, larger_deviation

Tensor = torch.Tensor


def call_reference(
    reference: Callable[..., Any],
    arguments: Sequence[Tensor],
    keywords: Mapping[str, Any],
    evaluation: Evaluation,
) -> Sequence[Any]:
    """What the reference returns, as a sequence of tensors.

    Args:
        arguments: bounded tensors, and plain ones of integers and bools. keywords: parameters.

    Raises:
        whatever the reference raises; UnsupportedReferenceError for what cannot be followed.
    """
    framework = find_framework(reference)
    # What torch code does that cannot be followed is mostly better written otherwise, as the error says; a
    # library that is mapped onto torch may use anything.
    mapped: tuple[Any, Any, Any] = (_follow_torch, call_torch, UnmappedReferenceError)
    if framework == "numpy":
        mapped = (_follow_numpy, call_numpy, UnsupportedReferenceError)
    elif framework == "jax":
        mapped = (*_jax_functions(), UnsupportedReferenceError)
    follow, on_plain, escapes = mapped
    try:
        return follow(reference, arguments, keywords, evaluation)  # type: ignore[no-any-return]
    except RandomReferenceError:
        raise
    except escapes as escape:
        evaluation.generic[f"reference ({escape})"] = None
        with _disable_current_modes():  # what follows is plain arithmetic, not the reference's
            return _by_draws(partial(on_plain, reference, keywords), arguments, evaluation)


def _jax_functions() -> tuple[Callable[..., Sequence[Any]], Callable[..., Sequence[Any]]]:
    from gpuemu.reference import jaxpr

    return jaxpr.follow_jax, jaxpr.call_jax


def _follow_torch(
    reference: Callable[..., Any], arguments: Sequence[Tensor], keywords: Mapping[str, Any], _: Evaluation
) -> Sequence[Any]:
    return _as_sequence(reference(*arguments, **keywords))


def call_torch(
    reference: Callable[..., Any], keywords: Mapping[str, Any], arrays: Sequence[Any]
) -> Sequence[Any]:
    """A torch reference on plain tensors; its outputs as a sequence."""
    return _as_sequence(reference(*map(torch.from_numpy, arrays), **keywords))


def _follow_numpy(
    reference: Callable[..., Any], arguments: Sequence[Tensor], keywords: Mapping[str, Any], _: Evaluation
) -> Sequence[Any]:
    result = reference(*(wrap(_copied(argument)) for argument in arguments), **keywords)
    return [_to_tensor(unwrap(part)) for part in _as_sequence(result)]


def call_numpy(
    reference: Callable[..., Any], keywords: Mapping[str, Any], arrays: Sequence[Any]
) -> Sequence[Any]:
    """A NumPy reference on plain arrays; its outputs as a sequence."""
    return _as_sequence(reference(*arrays, **keywords))


def _copied(argument: Tensor) -> Tensor:
    """A NumPy reference may write into its arguments: it gets a tensor of its own."""
    return argument.share() if type(argument) is Bounded else argument


def _as_sequence(result: Any) -> Sequence[Any]:
    return result if isinstance(result, (tuple, list)) else (result,)


def _to_tensor(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic, bool, int, float)):
        return torch.as_tensor(value)
    return value


def _by_draws(
    on_plain: Callable[[Sequence[Any]], Sequence[Any]], arguments: Sequence[Tensor], evaluation: Evaluation
) -> list[Tensor]:
    """The whole reference on plain float64 arrays, and at 8 random points beside them (section 2.3, rule 9).

    That sees how the function is conditioned, not what its intermediates may lose, so the bound is generic.
    """
    values = [a.value if type(a) is Bounded else a for a in arguments]
    outputs = _evaluate_plainly(on_plain, values)
    if any(output.is_complex() for output in outputs):
        raise UnsupportedReferenceError("the reference returns complex numbers; return their parts")
    deviations = [torch.zeros_like(output, dtype=torch.float64) for output in outputs]
    random = torch.Generator().manual_seed(SEED)
    for _ in range(DRAWS):
        shifted = _evaluate_plainly(on_plain, [_shift(value, evaluation, random) for value in values])
        for position, (output, other) in enumerate(zip(outputs, shifted, strict=True)):
            deviations[position] = larger_deviation(deviations[position], output, other)
    return [_bound(evaluation, *pair) for pair in zip(outputs, deviations, strict=True)]


def _evaluate_plainly(
    on_plain: Callable[[Sequence[Any]], Sequence[Any]], values: Sequence[Tensor]
) -> list[Tensor]:
    results = on_plain([value.cpu().numpy().copy() for value in values])
    parts = (p if isinstance(p, Tensor) else torch.as_tensor(np.array(p)) for p in results)
    return [part.to(values[0].device) for part in parts]


def _shift(value: Tensor, evaluation: Evaluation, random: torch.Generator) -> Tensor:
    """A float argument moved by up to 2u of itself at random; anything else as it is."""
    if not value.is_floating_point():
        return value
    point = torch.rand(value.shape, generator=random, dtype=torch.float64).mul_(2.0).sub_(1.0).to(value.device)
    moved = value * (1.0 + point * (2.0 * evaluation.arithmetic.unit_roundoff))
    return torch.where(value.isfinite(), moved, value)


def _bound(evaluation: Evaluation, output: Tensor, deviation: Tensor) -> Tensor:
    arithmetic = evaluation.arithmetic
    error = deviation * FACTOR
    if not output.is_floating_point():
        return evaluation.make(output, error > 0 if output.dtype == torch.bool else error)
    output = output.double()
    error = error + output.abs() * (UNITS * arithmetic.unit_roundoff) + arithmetic.underflow
    error = torch.where(output.abs() + error <= arithmetic.overflow, error, torch.inf)
    return evaluation.make(output, torch.where(output.isfinite() | (deviation == torch.inf), error, 0.0))
