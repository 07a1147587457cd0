"""Rule 4: functions that kernels approximate, with their natural intermediates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from gpuemu.reference.arithmetic import Arithmetic
from gpuemu.reference.bounded import Bounded
from gpuemu.reference.elementwise import Loss, Propagate, elementwise, to_operand
from gpuemu.reference.registry import rule

if TYPE_CHECKING:
    from gpuemu.reference.dispatch import Evaluation

Tensor = torch.Tensor
Values = Sequence[Any]
Errors = Sequence[Tensor | None]

# 16 u max(|f|, scale): 8 ulp cover the GPU column of JAX's exhaustive tables (ORACLE.md section 2.1).
UNITS = 16.0
PLAIN = Loss(UNITS, perturbed=True)
UNIT_SCALE = Loss(UNITS, perturbed=True, floor=1.0)
ARGUMENT_SCALE = Loss(UNITS, perturbed=True, scale="argument")


def _above_minus_one(x: Tensor) -> Tensor:
    return x + 1.0


LOGARITHM = Loss(UNITS, perturbed=True, margin=lambda x: x, pole=True)
LOGARITHM_1P = Loss(UNITS, perturbed=True, floor=1.0, margin=_above_minus_one, pole=True)

LOSSES = {
    "exp2": PLAIN, "silu": PLAIN, "erfc": PLAIN,
    "erf": UNIT_SCALE, "expm1": UNIT_SCALE, "elu": UNIT_SCALE, "celu": UNIT_SCALE, "softplus": UNIT_SCALE,
    "sinh": UNIT_SCALE, "cosh": UNIT_SCALE, "atan": UNIT_SCALE,
    "gelu": ARGUMENT_SCALE, "mish": ARGUMENT_SCALE,
    "log": LOGARITHM, "log2": LOGARITHM, "log10": LOGARITHM, "log1p": LOGARITHM_1P,
}  # fmt: skip


def propagate_exp(arithmetic: Arithmetic, error: Tensor, values: Values, errors: Errors, value: Tensor) -> bool:
    """exp(x) (exp(e) - 1), the upper side."""
    (argument_error,) = errors
    assert argument_error is not None  # perturbed: never None, and a tensor of our own
    error.addcmul_(argument_error.expm1_(), value)
    return True


def propagate_sigmoid(
    arithmetic: Arithmetic, error: Tensor, values: Values, errors: Errors, value: Tensor
) -> bool:
    """y (1 - y) (exp(e) - 1): the slope y (1 - y) grows at most by a factor exp(t) over a distance t."""
    (argument_error,) = errors
    assert argument_error is not None
    error.addcmul_(argument_error.expm1_().mul_(value), 1.0 - value)
    return True


def propagate_tanh(
    arithmetic: Arithmetic, error: Tensor, values: Values, errors: Errors, value: Tensor
) -> bool:
    """(1 - y^2) (exp(2e) - 1) / 2: the slope 1 - y^2 grows at most by a factor exp(2t) over a distance t."""
    (argument_error,) = errors
    assert argument_error is not None
    growth = argument_error.mul_(2.0).expm1_().mul_(0.5)
    error.add_(growth.addcmul_(growth * value, value, value=-1.0))
    return True


def propagate_wave(
    arithmetic: Arithmetic, error: Tensor, values: Values, errors: Errors, value: Tensor
) -> bool:
    """min(e, 2): sine and cosine have slope at most 1 and range 2. Corners would miss whole periods."""
    (argument_error,) = errors
    assert argument_error is not None
    error.add_(argument_error.clamp_(max=2.0))
    return bool(values[0].isfinite().all())


CLOSED: dict[str, tuple[Loss, Propagate]] = {
    "exp": (PLAIN, propagate_exp),
    "sigmoid": (PLAIN, propagate_sigmoid),
    "tanh": (UNIT_SCALE, propagate_tanh),
    "sin": (UNIT_SCALE, propagate_wave),
    "cos": (UNIT_SCALE, propagate_wave),
}


def unary(
    evaluation: Evaluation,
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    loss: Loss,
    propagate: Propagate | None = None,
) -> Bounded:
    """An op whose first argument is its only tensor."""
    return elementwise(
        evaluation, lambda x: func(x, *args[1:], **kwargs), [to_operand(args[0])], loss, propagate
    )


@rule(*CLOSED)
def closed(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Functions whose propagated error has a closed form."""
    loss, propagate = CLOSED[func._schema.name.removeprefix("aten::")]
    return unary(evaluation, func, args, kwargs, loss, propagate)


@rule(*LOSSES)
def two_sided(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Functions evaluated at both ends of the argument's interval."""
    name = func._schema.name.removeprefix("aten::")
    loss = LOSSES[name]
    if name in ("elu", "celu"):
        alpha, scale = (*args[1:3], 1.0, 1.0)[:2] if name == "elu" else ((*args[1:2], 1.0)[0], 1.0)
        loss = Loss(UNITS, perturbed=True, floor=max(1.0, abs(alpha * scale)))
    elif name == "softplus":
        beta = args[1] if len(args) > 1 else 1.0
        loss = Loss(UNITS, perturbed=True, floor=max(1.0, 1.0 / abs(beta)))
    return unary(evaluation, func, args, kwargs, loss)


@rule("log_sigmoid_forward")
def log_sigmoid(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """log(sigmoid(x)) and a buffer that only the gradient needs."""
    result = elementwise(evaluation, torch.nn.functional.logsigmoid, [to_operand(args[0])], UNIT_SCALE)
    return result, result.share()


@rule("leaky_relu")
def leaky_relu(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Exact for positive numbers, a product for negative ones."""
    return unary(evaluation, func, args, kwargs, Loss(1.0, certificate=True))


@rule("_prelu_kernel", "prelu")
def prelu(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A leaky ReLU whose slopes are an input."""
    return elementwise(
        evaluation, func, [to_operand(args[0]), to_operand(args[1])], Loss(1.0, certificate=True)
    )
