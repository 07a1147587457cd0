"""Comparisons and logic: a bool is uncertain where a rounding may flip it (rule 2)."""

from __future__ import annotations

from typing import Any

import torch

from gpuemu.reference.bounded import Bounded
from gpuemu.reference.errors import UnsupportedReferenceError
from gpuemu.reference.registry import Call, rule
from gpuemu.reference.step import to_operand


def to_bool(argument: Any) -> tuple[Any, torch.Tensor | None]:
    """Truth value of an operand and where it may flip."""
    if type(argument) is not Bounded:
        return (argument != 0 if isinstance(argument, torch.Tensor) else bool(argument)), None
    value, error = argument.value, argument.error
    if value.dtype == torch.bool:
        return value, error
    return value != 0, None if error is None else ~(value.abs() > error) & (error != 0)


def finish(call: Call, value: torch.Tensor, flips: torch.Tensor | None) -> torch.Tensor:
    """A plain bool tensor where nothing can flip, else a bounded one."""
    if call.evaluation.writes_bools and flips is None:
        return call.make(value, torch.zeros_like(value))
    if flips is None or not (call.evaluation.writes_bools or bool(flips.any())):
        return value
    return call.make(value, flips.expand(value.shape))


@rule("gt", "lt", "ge", "le", "eq", "ne")
def compare(call: Call) -> Any:
    """Uncertain where the operands' intervals overlap and at least one of them is no point.

    A number compares with itself (the test for NaN) in one way, whatever it is.
    """
    (a, error_a), (b, error_b) = to_operand(call.args[0]), to_operand(call.args[1])
    value = call.func(a, b)
    if error_a is None and error_b is None:
        return finish(call, value, None)
    if error_a is not None and call.args[0] is call.args[1]:
        return finish(call, value, ~error_a.isfinite())
    reach = (0.0 if error_a is None else error_a) + (0.0 if error_b is None else error_b)
    return finish(call, value, ~((a - b).abs() > reach) & (reach != 0))  # NaN counts as overlap


@rule("isnan", "isinf", "isfinite", "isneginf", "isposinf", "signbit")
def classify(call: Call) -> Any:
    """Tests of finiteness and sign; uncertain where nothing is known of the number."""
    operand, error = to_operand(call.args[0])
    value = call.func(operand)
    if error is None:
        return value
    flips = ~error.isfinite()
    if call.name == "signbit":
        flips |= (operand.abs() <= error) & (error != 0)
    return finish(call, value, flips)


@rule("logical_not", "bitwise_not")
def invert(call: Call) -> Any:
    """Not: flips where its operand does."""
    holds, flips = _logical_operand(call, call.args[0])
    return finish(call, ~holds, flips)


@rule("logical_and", "bitwise_and", "logical_or", "bitwise_or", "logical_xor", "bitwise_xor")
def combine(call: Call) -> Any:
    """And, or, xor: uncertain unless a certain operand decides alone."""
    (a, flips_a), (b, flips_b) = (_logical_operand(call, argument) for argument in call.args[:2])
    name = call.name.rpartition("_")[2]
    value = {"and": torch.logical_and, "or": torch.logical_or, "xor": torch.logical_xor}[name](a, b)
    doubt_a = torch.zeros_like(value) if flips_a is None else flips_a
    doubt_b = torch.zeros_like(value) if flips_b is None else flips_b
    flips = doubt_a | doubt_b
    if name == "and":
        flips = flips & ~((~a & ~doubt_a) | (~b & ~doubt_b))
    elif name == "or":
        flips = flips & ~((a & ~doubt_a) | (b & ~doubt_b))
    return finish(call, value, flips)


def _logical_operand(call: Call, argument: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
    holds, flips = to_bool(argument)
    if not isinstance(holds, torch.Tensor):
        holds = torch.tensor(holds)
    if call.name.startswith("bitwise") and isinstance(argument, torch.Tensor) and argument.dtype != torch.bool:
        raise UnsupportedReferenceError(f"{call.func} on integers that a rounding may change is not followed")
    return holds, flips


@rule("any", "all")
def reduce_bool(call: Call) -> Any:
    """any and all: certain if the certain elements decide."""
    holds, flips = to_bool(call.args[0])
    value = call.func(holds, *call.args[1:], **call.kwargs)
    if flips is None:
        return value
    most = call.func(holds | flips, *call.args[1:], **call.kwargs)
    least = call.func(holds & ~flips, *call.args[1:], **call.kwargs)
    return finish(call, value, most ^ least)


@rule("_local_scalar_dense", "is_nonzero", "equal")
def to_python(call: Call) -> Any:
    """A Python number made from a tensor has no error to carry: only exact ones may be taken."""
    if any(type(a) is Bounded and a.error is not None and bool((a.error != 0).any()) for a in call.args):
        raise UnsupportedReferenceError(
            "the reference turns a computed value into a Python number or branches on it; keep it a tensor"
        )
    return call.func(*(a.value if type(a) is Bounded else a for a in call.args), **call.kwargs)
