"""Rule 3: add, subtract, multiply, divide, roots and powers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from gpuemu.reference.arithmetic import Arithmetic
from gpuemu.reference.bounded import Bounded
from gpuemu.reference.elementwise import Loss, elementwise, magnitude, to_operand
from gpuemu.reference.registry import rule

if TYPE_CHECKING:
    from gpuemu.reference.dispatch import Evaluation

Tensor = torch.Tensor
Values = Sequence[Any]
Errors = Sequence[Tensor | None]


def _identity(operand: Tensor) -> Tensor:
    return operand


ADD = Loss(1.0, scale="operands", certificate=True)
MULTIPLY = Loss(1.0, certificate=True)
DIVIDE = Loss(4.0, divides=True, margin=torch.abs, pole=True)
RECIPROCAL = Loss(4.0, margin=torch.abs, pole=True)
SQRT = Loss(4.0, margin=_identity)
RSQRT = Loss(4.0, margin=_identity, pole=True)
SQUARE = Loss(1.0, certificate=True)
POWER = Loss(4.0, certificate=True)
NEGATIVE_POWER = Loss(4.0, margin=torch.abs, pole=True)
# A power that is no whole or half number is exp2(p log2 x): its exponent may be off by 2u|p| (rule 4).
REAL_POWER = Loss(16.0, perturbed=True, margin=_identity, edged=0)


def propagate_sum(arithmetic: Arithmetic, error: Tensor, values: Values, errors: Errors, value: Tensor) -> bool:
    """e_a + e_b."""
    for term in errors:
        if term is not None:
            error.add_(term)
    return True


def propagate_product(
    arithmetic: Arithmetic, error: Tensor, values: Values, errors: Errors, value: Tensor
) -> bool:
    """|a| e_b + (|b| + e_b) e_a."""
    (a, b), (error_a, error_b) = values, errors
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


def propagate_quotient(
    arithmetic: Arithmetic, error: Tensor, values: Values, errors: Errors, value: Tensor
) -> bool:
    """(e_a + |a/b| e_b) / (|b| - e_b), while the divisor stays away from 0."""
    divisor, (error_a, error_b) = values[-1], errors
    margin = magnitude(divisor)
    if error_b is not None:
        margin = margin - error_b
    if not isinstance(margin, Tensor):
        margin = torch.tensor(margin, dtype=torch.float64, device=value.device)
    if margin.numel() and not bool(margin.min() >= arithmetic.underflow):
        return False
    if error_b is not None:
        error.addcmul_(value.abs(), error_b / margin)
    if error_a is not None:
        error.addcdiv_(error_a, margin)
    return True


def propagate_root(
    arithmetic: Arithmetic, error: Tensor, values: Values, errors: Errors, value: Tensor
) -> bool:
    """sqrt(x) - sqrt(x - e), the larger side, without cancellation."""
    (x,), (error_x,) = values, errors
    if error_x is None:
        return True
    lower = x - error_x
    if lower.numel() and not bool(lower.min() > 0):
        return False
    error.addcdiv_(error_x, lower.sqrt_().add_(value))
    return True


def propagate_inverse_root(
    arithmetic: Arithmetic, error: Tensor, values: Values, errors: Errors, value: Tensor
) -> bool:
    """v (1/sqrt(1 - t) - 1) with t = e/x, the larger side, as v t / ((1 - t) + sqrt(1 - t))."""
    (x,), (error_x,) = values, errors
    lower = x if error_x is None else x - error_x
    if lower.numel() and not bool(lower.min() >= arithmetic.underflow):
        return False
    if error_x is not None:
        ratio = lower / x
        error.addcmul_(value, error_x / x / (ratio + ratio.sqrt()))
    return True


@rule("add", "sub", "rsub")
def add(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """a + alpha b and its kin. A factor alpha other than 1 is a product of its own."""
    alpha = args[2] if len(args) > 2 else kwargs.get("alpha", 1)
    name = func._schema.name.removeprefix("aten::")
    a, b = args[0], args[1]
    if alpha != 1:
        scaled = a if name == "rsub" else b
        scaled = multiply_operands(evaluation, scaled, alpha) if isinstance(scaled, Tensor) else scaled * alpha
        a, b = (scaled, b) if name == "rsub" else (a, scaled)
    if _all_integers(a, b):
        return _integers(evaluation, func, (a, b))
    function = {"add": torch.add, "sub": torch.sub, "rsub": torch.rsub}[name]
    if not isinstance(a, Tensor):
        a, b, function = b, a, {"add": torch.add, "sub": torch.rsub, "rsub": torch.sub}[name]
    return elementwise(evaluation, function, [to_operand(a), to_operand(b)], ADD, propagate_sum)


def multiply_operands(evaluation: Evaluation, a: Any, b: Any) -> Bounded:
    """a b with one rounding."""
    return elementwise(evaluation, torch.mul, [to_operand(a), to_operand(b)], MULTIPLY, propagate_product)


@rule("mul")
def multiply(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """a b."""
    if _all_integers(args[0], args[1]):
        return _integers(evaluation, func, args[:2])
    return multiply_operands(evaluation, args[0], args[1])


@rule("div.Tensor", "div.Scalar", "true_divide")
def divide(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """a / b."""
    operands = [to_operand(args[0]), to_operand(args[1])]
    return elementwise(evaluation, torch.div, operands, DIVIDE, propagate_quotient)


@rule("reciprocal")
def reciprocal(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """1 / x."""

    def propagate(a: Arithmetic, error: Tensor, values: Values, errors: Errors, value: Tensor) -> bool:
        return propagate_quotient(a, error, values, (None, *errors), value)

    return elementwise(evaluation, torch.reciprocal, [to_operand(args[0])], RECIPROCAL, propagate)


@rule("sqrt")
def sqrt(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The square root."""
    return elementwise(evaluation, torch.sqrt, [to_operand(args[0])], SQRT, propagate_root)


@rule("rsqrt")
def rsqrt(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """1 / sqrt(x)."""
    return elementwise(evaluation, torch.rsqrt, [to_operand(args[0])], RSQRT, propagate_inverse_root)


def square_operand(evaluation: Evaluation, x: Any, loss: Loss = SQUARE) -> Bounded:
    """x^2: error (2|x| + e) e."""

    def propagate(a: Arithmetic, error: Tensor, values: Values, errors: Errors, value: Tensor) -> bool:
        (x_value,), (error_x,) = values, errors
        if error_x is not None:
            error.addcmul_(x_value.abs().mul_(2.0).add_(error_x), error_x)
        return True

    return elementwise(evaluation, torch.square, [to_operand(x)], loss, propagate)


@rule("square")
def square(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """x^2."""
    return square_operand(evaluation, args[0])


@rule("pow.Tensor_Scalar")
def power(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """x^p for a fixed p: products, divisions and roots where p is whole or half, else exp2(p log2 x)."""
    x, exponent = args[0], float(args[1])
    if _all_integers(x, args[1]):
        return _integers(evaluation, func, (x, args[1]))
    if exponent == 1.0 and isinstance(x, Bounded):
        return x.share()
    if exponent == 2.0:
        return square_operand(evaluation, x, POWER)
    if exponent in (0.5, -0.5):
        operation = sqrt if exponent > 0 else rsqrt
        return operation(evaluation, func, (x,), {})

    def raised(base: Tensor, p: Any = exponent) -> Tensor:
        return torch.pow(base, p)

    if (2.0 * exponent).is_integer():
        whole, positive = exponent.is_integer(), exponent > 0
        loss = (
            POWER
            if whole and positive
            else Loss(4.0, margin=torch.abs if whole else _identity, pole=not positive)
        )
        return elementwise(evaluation, raised, [to_operand(x)], loss)
    # The exponent is a 0-dimensional tensor here, so that it is perturbed as well.
    operand = to_operand(x)
    p = torch.tensor(exponent, dtype=torch.float64, device=operand[0].device)
    return elementwise(evaluation, torch.pow, [operand, (p, None)], REAL_POWER)


@rule("pow.Tensor_Tensor", "pow.Scalar")
def real_power(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """x^y for tensors, as exp2(y log2 x)."""
    base, exponent = to_operand(args[0]), to_operand(args[1])
    if not isinstance(base[0], Tensor):
        base = torch.tensor(float(base[0]), dtype=torch.float64, device=exponent[0].device), None
    return elementwise(evaluation, torch.pow, [base, exponent], REAL_POWER)


def _all_integers(*arguments: Any) -> bool:
    return all(not a.is_floating_point() if isinstance(a, Tensor) else isinstance(a, int) for a in arguments)


def _integers(evaluation: Evaluation, func: Any, arguments: tuple[Any, ...]) -> Any:
    """Integer arithmetic: no rounding, errors as for numbers without one."""
    value = func(*(a.value if type(a) is Bounded else a for a in arguments))
    followed = elementwise(evaluation, lambda *v: func(*v).double(), [to_operand(a) for a in arguments], Loss())
    if followed.error is None:
        return value
    return evaluation.make(value, followed.error)
