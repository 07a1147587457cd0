"""Rule 3: add, subtract, multiply and divide."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from gpuemu.reference.bounded import Bounded
from gpuemu.reference.elementwise import elementwise
from gpuemu.reference.registry import Call, rule
from gpuemu.reference.step import EXACT, Function, Loss, Step, magnitude, to_operand

if TYPE_CHECKING:
    from gpuemu.reference.dispatch import Evaluation

Tensor = torch.Tensor

SUBTRACT = Loss(1.0, scale="operands", certificate=True, growth=lambda a, b: (a + b, (1.0, 1.0)))
ADD = replace(SUBTRACT, positive="with operands")
MULTIPLY = Loss(1.0, certificate=True, growth=lambda a, b: (a * b, (b, a)), positive="with operands")
DIVIDE = Loss(4.0, divides=True, margin=torch.abs, pole=True, positive="with operands")
RECIPROCAL = Loss(4.0, margin=torch.abs, pole=True, positive="with operands")

_FUNCTIONS: dict[str, Function] = {"add": torch.add, "sub": torch.sub, "rsub": torch.rsub}
_SWAPPED: dict[str, Function] = {"add": torch.add, "sub": torch.rsub, "rsub": torch.sub}


def propagate_sum(step: Step, error: Tensor) -> bool:
    """e_a + e_b."""
    for term in step.errors:
        if term is not None:
            error.add_(term)
    return True


def propagate_product(step: Step, error: Tensor) -> bool:
    """|a| e_b + (|b| + e_b) e_a."""
    (a, b), (error_a, error_b) = step.values, step.errors
    number = None if error_b is None or isinstance(b, Tensor) else getattr(error_b, "known_number", None)
    if number is not None:
        error.add_(magnitude(a), alpha=number)
        if error_a is not None:
            error.add_(error_a, alpha=abs(b) + number)
        return True
    if error_b is not None:
        _add_product(error, error_b, magnitude(a))
    if error_a is not None:
        _add_product(error, error_a, magnitude(b) if error_b is None else magnitude(b) + error_b)
    return True


def _add_product(error: Tensor, factor: Tensor, other: Any) -> None:
    if isinstance(other, Tensor):
        error.addcmul_(factor, other)
    else:
        error.add_(factor, alpha=other)


def propagate_quotient(step: Step, error: Tensor) -> bool:
    """(e_a + |a/b| e_b) / (|b| - e_b), while the divisor stays away from 0; a reciprocal has no e_a."""
    divisor, error_b = step.values[-1], step.errors[-1]
    error_a = step.errors[0] if len(step.errors) > 1 else None
    margin = magnitude(divisor)
    if error_b is not None:
        margin = margin - error_b
    if not isinstance(margin, Tensor):
        margin = torch.tensor(margin, dtype=torch.float64, device=error.device)
    step.demand(margin, step.arithmetic.underflow)
    if error_b is not None:
        error.addcmul_(magnitude(step.result), error_b / margin)
    if error_a is not None:
        error.addcdiv_(error_a, margin)
    return True


@rule("add", "sub", "rsub")
def add(call: Call) -> Any:
    """a + alpha b and its kin. A factor alpha other than 1 is a product of its own."""
    (a, b), name, alpha = call.args[:2], call.name, call.argument(2, "alpha", 1)
    if alpha != 1 and name == "rsub":
        a = product(call.evaluation, a, alpha)
    elif alpha != 1:
        b = product(call.evaluation, b, alpha) if isinstance(b, Tensor) else b * alpha
    if all_integers(a, b):
        return on_integers(call.with_changes(a, b))
    function = _FUNCTIONS[name]
    if not isinstance(a, Tensor):
        a, b, function = b, a, _SWAPPED[name]
    operands = [to_operand(a), to_operand(b, call.arithmetic, a)]
    loss = ADD if function is torch.add else SUBTRACT
    return elementwise(call.evaluation, function, operands, loss, propagate_sum)


def product(evaluation: Evaluation, a: Any, b: Any) -> Bounded:
    """a b with one rounding."""
    beside = a if isinstance(a, Tensor) else b
    operands = [to_operand(operand, evaluation.arithmetic, beside) for operand in (a, b)]
    return elementwise(evaluation, torch.mul, operands, MULTIPLY, propagate_product)


@rule("mul")
def multiply(call: Call) -> Any:
    """a b."""
    if all_integers(*call.args[:2]):
        return on_integers(call)
    return product(call.evaluation, *call.args[:2])


@rule("div.Tensor", "div.Scalar", "true_divide")
def divide(call: Call) -> Any:
    """a / b."""
    beside = next(a for a in call.args if isinstance(a, Tensor))
    operands = [to_operand(argument, call.arithmetic, beside) for argument in call.args[:2]]
    return elementwise(call.evaluation, torch.div, operands, DIVIDE, propagate_quotient)


@rule("reciprocal")
def reciprocal(call: Call) -> Any:
    """1 / x."""
    operands = [to_operand(call.args[0])]
    return elementwise(call.evaluation, torch.reciprocal, operands, RECIPROCAL, propagate_quotient)


def all_integers(*arguments: Any) -> bool:
    """Whether all of these tensors and numbers are integers or bools."""
    return all(not a.is_floating_point() if isinstance(a, Tensor) else isinstance(a, int) for a in arguments)


def on_integers(call: Call) -> Any:
    """Integer arithmetic, which does not round: evaluated at the corners of the operands' intervals."""
    value = call.func(*(a.value if type(a) is Bounded else a for a in call.args), **call.kwargs)
    operands = [to_operand(a) for a in call.args]
    followed = elementwise(call.evaluation, lambda *v: call.func(*v, **call.kwargs).double(), operands, EXACT)
    if followed.error is None:
        return value
    return call.make(value, followed.error > 0 if value.dtype == torch.bool else followed.error)
