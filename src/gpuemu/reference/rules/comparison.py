"""Comparisons and logic: a bool is uncertain where a rounding may flip it (rule 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from gpuemu.reference.bounded import Bounded
from gpuemu.reference.elementwise import to_operand
from gpuemu.reference.errors import UnsupportedReferenceError
from gpuemu.reference.registry import rule

if TYPE_CHECKING:
    from gpuemu.reference.dispatch import Evaluation


def to_bool(argument: Any) -> tuple[Any, torch.Tensor | None]:
    """Truth value of an operand and where it may flip."""
    if type(argument) is not Bounded:
        return (argument != 0 if isinstance(argument, torch.Tensor) else bool(argument)), None
    value, error = argument.value, argument.error
    if value.dtype == torch.bool:
        return value, error
    return value != 0, None if error is None else ~(value.abs() > error) & (error != 0)


def finish(evaluation: Evaluation, value: torch.Tensor, flips: torch.Tensor | None) -> torch.Tensor:
    """A plain bool tensor where nothing can flip, else a bounded one."""
    if flips is None or not bool(flips.any()):
        return value
    return evaluation.make(value, flips.expand(value.shape))


@rule("gt", "lt", "ge", "le", "eq", "ne")
def compare(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Uncertain where the operands' intervals overlap and at least one of them is no point."""
    (a, error_a), (b, error_b) = to_operand(args[0]), to_operand(args[1])
    value = func(a, b)
    if error_a is None and error_b is None:
        return value
    reach = (0.0 if error_a is None else error_a) + (0.0 if error_b is None else error_b)
    return finish(evaluation, value, ~((a - b).abs() > reach) & (reach != 0))  # NaN counts as overlap


@rule("isnan", "isinf", "isfinite", "isneginf", "isposinf", "signbit")
def classify(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Tests of finiteness and sign; uncertain where nothing is known of the number."""
    operand, error = to_operand(args[0])
    value = func(operand)
    if error is None:
        return value
    flips = ~error.isfinite()
    if func is torch.ops.aten.signbit.default:
        flips |= (operand.abs() <= error) & (error != 0)
    return finish(evaluation, value, flips)


@rule("logical_not", "bitwise_not")
def invert(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Not: flips where its operand does."""
    holds, flips = _logical_operand(func, args[0])
    return finish(evaluation, ~holds, flips)


@rule("logical_and", "bitwise_and", "logical_or", "bitwise_or", "logical_xor", "bitwise_xor")
def combine(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """And, or, xor: uncertain unless a certain operand decides alone."""
    (a, flips_a), (b, flips_b) = (_logical_operand(func, argument) for argument in args[:2])
    name = func._schema.name.rpartition("_")[2]
    value = {"and": torch.logical_and, "or": torch.logical_or, "xor": torch.logical_xor}[name](a, b)
    doubt_a = torch.zeros_like(value) if flips_a is None else flips_a
    doubt_b = torch.zeros_like(value) if flips_b is None else flips_b
    flips = doubt_a | doubt_b
    if name == "and":
        flips = flips & ~((~a & ~doubt_a) | (~b & ~doubt_b))
    elif name == "or":
        flips = flips & ~((a & ~doubt_a) | (b & ~doubt_b))
    return finish(evaluation, value, flips)


def _logical_operand(func: Any, argument: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
    holds, flips = to_bool(argument)
    if not isinstance(holds, torch.Tensor):
        holds = torch.tensor(holds)
    if "bitwise" in func._schema.name and isinstance(argument, torch.Tensor) and argument.dtype != torch.bool:
        raise UnsupportedReferenceError(f"{func} on integers that a rounding may change is not followed")
    return holds, flips


@rule("any", "all")
def reduce_bool(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """any and all: certain if the certain elements decide."""
    holds, flips = to_bool(args[0])
    value = func(holds, *args[1:], **kwargs)
    if flips is None:
        return value
    flipped_up, flipped_down = (
        func(holds | flips, *args[1:], **kwargs),
        func(holds & ~flips, *args[1:], **kwargs),
    )
    return finish(evaluation, value, flipped_up ^ flipped_down)


@rule("_local_scalar_dense", "is_nonzero", "equal")
def to_python(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A Python number made from a tensor has no error to carry: only exact ones may be taken."""
    if any(type(a) is Bounded and a.error is not None and bool((a.error != 0).any()) for a in args):
        raise UnsupportedReferenceError(
            "the reference turns a computed value into a Python number or branches on it; keep it a tensor"
        )
    return func(*(a.value if type(a) is Bounded else a for a in args), **kwargs)
