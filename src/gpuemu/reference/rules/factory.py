"""Tensors that a reference makes itself: floats are float64 and exact whatever dtype was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from gpuemu.reference.bounded import Bounded
from gpuemu.reference.registry import rule

if TYPE_CHECKING:
    from gpuemu.reference.dispatch import Evaluation


@rule(
    "arange", "empty.memory_format", "empty_strided", "eye", "full", "linspace", "logspace", "ones", "scalar_tensor",
    "zeros", "tri", "hann_window",
)  # fmt: skip
def make(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A tensor from numbers."""
    args = tuple(_to_literal(evaluation, a) for a in args)
    value = func(*args, **{**kwargs, "dtype": torch.float64})
    error = None
    if func._schema.name in ("aten::linspace", "aten::logspace"):
        error = value.abs().mul_(4.0 * evaluation.arithmetic.unit_roundoff)
    return evaluation.make(value, error)


@rule(
    "empty_like", "full_like", "new_empty", "new_full", "new_ones", "new_zeros", "new_empty_strided", "ones_like",
    "zeros_like",
)  # fmt: skip
def make_like(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A tensor of another's shape or dtype."""
    model = args[0].value if type(args[0]) is Bounded else args[0]
    others = tuple(_to_literal(evaluation, a) for a in args[1:])
    dtype = kwargs.get("dtype")
    if dtype is not None and dtype.is_floating_point:
        kwargs = {**kwargs, "dtype": torch.float64}
    result = func(model, *others, **kwargs)
    if result.is_floating_point():
        return evaluation.make(result.double())
    return result


@rule("fill", "zero")
def fill(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Every element overwritten by one number."""
    model = args[0].value if type(args[0]) is Bounded else args[0]
    number = args[1] if len(args) > 1 else 0
    if type(number) is Bounded:
        error = number.error
        return evaluation.make(
            number.value.to(model.dtype).expand(model.shape),
            None if error is None else error.expand(model.shape),
        )
    number = _to_literal(evaluation, number)
    return evaluation.make(torch.full_like(model, float(number) if model.is_floating_point() else number))


def _to_literal(evaluation: Evaluation, argument: Any) -> Any:
    return evaluation.arithmetic.literal(argument) if isinstance(argument, float) else argument
