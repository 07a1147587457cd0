"""Rule 4: functions that kernels approximate, with their natural intermediates."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any

import torch

from gpuemu.reference.bounded import Bounded
from gpuemu.reference.constants import number_tensor, scalar
from gpuemu.reference.elementwise import corners_of, elementwise
from gpuemu.reference.extent import size_of
from gpuemu.reference.registry import Call, rule
from gpuemu.reference.step import LARGEST_SCALED_FLUSH, Growth, Loss, Propagate, Step, to_operand

Tensor = torch.Tensor

# 16 u max(|f|, scale): 8 ulp cover the GPU column of JAX's exhaustive tables (ORACLE.md section 2.1).
UNITS = 16.0
PLAIN = Loss(UNITS, perturbed=True)
UNIT_SCALE = Loss(UNITS, perturbed=True, floor=1.0)
ARGUMENT_SCALE = Loss(UNITS, perturbed=True, scale="argument")
# Functions with values in [-1, 1] and slopes up to the number named.
UP_TO_ONE = replace(UNIT_SCALE, ceiling=1.0, growth=lambda _: (1.0, (1.0,)))
LOGISTIC = replace(PLAIN, positive="always", growth=lambda _: (1.0, (0.25,)))
EXPONENTIAL = replace(PLAIN, positive="always", growth=lambda x: (math.exp(x), (math.exp(x),)))


def _at_most_argument(slope: float) -> Growth:
    """Of functions with |f(x)| <= |x|."""
    return lambda x: (x, (slope,))


LOGARITHM = Loss(UNITS, perturbed=True, margin=lambda x: x, pole=True)
LOGARITHM_1P = Loss(UNITS, perturbed=True, floor=1.0, margin=lambda x: x + 1.0, pole=True)
SLOPE = Loss(
    1.0, certificate=True, partial=True, growth=lambda x, slope: (x * max(1.0, slope), (max(1.0, slope), x))
)

LOSSES = {
    "exp2": EXPONENTIAL, "erfc": replace(PLAIN, growth=lambda _: (2.0, (1.13,))),
    "erf": replace(UP_TO_ONE, growth=lambda _: (1.0, (1.13,))),
    "expm1": replace(UNIT_SCALE, growth=EXPONENTIAL.growth),
    "sinh": replace(UNIT_SCALE, growth=EXPONENTIAL.growth),
    "cosh": replace(UNIT_SCALE, growth=EXPONENTIAL.growth),
    "atan": replace(UNIT_SCALE, growth=lambda _: (1.6, (1.0,))),
    # x (1 + erf(x / sqrt 2)) before it is halved; its minimum, at -0.752 (either form).
    "gelu": replace(ARGUMENT_SCALE, headroom=2.0, dip=0.1701, growth=_at_most_argument(1.2)),
    "mish": replace(ARGUMENT_SCALE, dip=0.3089, growth=_at_most_argument(1.2)),  # its minimum, at -1.192
    "log": LOGARITHM, "log2": LOGARITHM, "log10": LOGARITHM, "log1p": LOGARITHM_1P,
}  # fmt: skip


# Closed forms multiply a slope by its growth over the interval; beyond this half-width the slope may have been
# lost to rounding (1 - y = 0 for y near 1), and the corners are evaluated instead.
LARGEST_GROWTH = 0.5


def _argument_error(step: Step) -> Tensor:
    """The argument's error with its perturbation: a tensor that may be overwritten."""
    error = step.errors[0]
    if error is None:
        raise TypeError("the argument of a transcendental function is always perturbed")
    return error


def propagate_exp(step: Step, error: Tensor) -> bool:
    """exp(x) (e + e^2), which covers the upper side exp(x) (exp(e) - 1) for e <= 1."""
    reach = _argument_error(step)
    error.addcmul_(reach.addcmul_(reach, reach), step.result)
    return step.is_within(LARGEST_GROWTH)


def propagate_sigmoid(step: Step, error: Tensor) -> bool:
    """y (1 - y) (e + e^2): the slope y (1 - y) grows at most by a factor exp(t) over a distance t."""
    reach = _argument_error(step)
    slope = torch.addcmul(step.result, step.result, step.result, value=-1.0)
    error.addcmul_(reach.addcmul_(reach, reach), slope)
    return step.is_within(LARGEST_GROWTH)


def propagate_tanh(step: Step, error: Tensor) -> bool:
    """(1 - y^2) (e + 2e^2): the slope 1 - y^2 grows at most by a factor exp(2t) over a distance t."""
    reach = _argument_error(step)
    reach.addcmul_(reach, reach, value=2.0)
    error.addcmul_(reach, torch.addcmul(number_tensor(1.0, reach.device), step.result, step.result, value=-1.0))
    return step.is_within(LARGEST_GROWTH)


def propagate_wave(step: Step, error: Tensor) -> bool:
    """min(e, 2): sine and cosine have slope at most 1 and range 2. Corners would miss whole periods."""
    error.add_(_argument_error(step).clamp_(max=2.0))
    return step.is_within(sys.float_info.max)


CLOSED: dict[str, tuple[Loss, Propagate]] = {
    "exp": (EXPONENTIAL, propagate_exp),
    "sigmoid": (LOGISTIC, propagate_sigmoid),
    "tanh": (UP_TO_ONE, propagate_tanh),
    "sin": (UP_TO_ONE, propagate_wave),
    "cos": (UP_TO_ONE, propagate_wave),
}


def unary(call: Call, loss: Loss, propagate: Propagate | None = None) -> Bounded:
    """An op whose first argument is its only tensor."""
    operands = [to_operand(call.args[0])]
    return elementwise(
        call.evaluation, lambda x: call.func(x, *call.args[1:], **call.kwargs), operands, loss, propagate
    )


@rule(*CLOSED)
def closed(call: Call) -> Any:
    """Functions whose propagated error has a closed form."""
    return unary(call, *CLOSED[call.name])


@rule(*LOSSES)
def two_sided(call: Call) -> Any:
    """Functions evaluated at both ends of the argument's interval."""
    return unary(call, LOSSES[call.name])


# Its minimum is at -1.278.
SILU = replace(PLAIN, dip=0.2785, growth=_at_most_argument(1.1))


@rule("silu")
def silu(call: Call) -> Any:
    """x / (1 + exp(-x)): in closed form for exact arguments."""
    if to_operand(call.args[0])[1] is None:
        return unary(call, replace(SILU, partial=True), bound_silu)
    return unary(call, SILU)


def bound_silu(step: Step, error: Tensor) -> bool:
    """|y| (16 u + 2u |1 + x - y| + k (3 + |1 + x - y|)) + omega (1 + |x|), x exact, k = 2.4 u E, E = 2u|x|.

    With s = sigmoid(x) and y = x s, the slope is f' = s (1 + x (1 - s)), so that E |f'| = 2u |y| |1 + x - y|.
    Over a distance t <= E <= 1/32 it changes by less than 1.2 t s (1 - s) (2 + |x|), which bounds |f''| there;
    and E 1.2 E s (1 - s) (2 + |x|) <= k |y| (2 + |x - y|) with the largest E in k.
    """
    arithmetic, x, widest = step.arithmetic, step.values[0], step.widest
    if widest is None or not widest <= 2.0**-5:
        return False
    u, omega = arithmetic.unit_roundoff, arithmetic.underflow
    own, more = max(UNITS, arithmetic.function_units) * u, 2.4 * u * widest
    slope = torch.sub(x, step.result, out=error).add_(1.0).abs_()
    factor = torch.add(scalar(own + 3.0 * more), slope, alpha=2.0 * u + more)
    flush = size_of(x)
    if widest > 2.0 * u * LARGEST_SCALED_FLUSH:
        flush = flush.clamp(max=LARGEST_SCALED_FLUSH)
    flush = torch.add(scalar(omega), flush, alpha=omega)
    torch.addcmul(flush, size_of(step.result), factor, out=error)
    return True


@rule("elu", "celu")
def exponential_linear_unit(call: Call) -> Any:
    """alpha (exp(x) - 1) below 0: the intermediate that may cancel is alpha (times elu's scale)."""
    scale = call.argument(2, "scale", 1.0) if call.name == "elu" else 1.0
    size = abs(call.argument(1, "alpha", 1.0) * scale)
    if all(argument == 1 for argument in (*call.args[1:], *call.kwargs.values())):
        return unary(call, UNIT_ELU, propagate_elu)
    return unary(call, replace(UNIT_SCALE, floor=max(1.0, size)))


UNIT_ELU = replace(UNIT_SCALE, growth=lambda x: (max(1.0, x), (1.0,)))


def propagate_elu(step: Step, error: Tensor) -> bool:
    """(min(y, 0) + 1) (e + e^2) for alpha = 1, whose slope is exp(min(x, 0)) = min(y, 0) + 1.

    It grows by a factor of at most exp(t) over a distance t; from below 0 to above, y grows by less still.
    """
    reach = _argument_error(step)
    error.addcmul_(reach.addcmul_(reach, reach), step.result.clamp(max=0.0).add_(1.0))
    return step.is_within(LARGEST_GROWTH)


@rule("softplus")
def softplus(call: Call) -> Any:
    """log(1 + exp(beta x)) / beta."""
    return unary(call, replace(UNIT_SCALE, floor=max(1.0, 1.0 / abs(call.argument(1, "beta", 1.0)))))


@rule("log_sigmoid_forward")
def log_sigmoid(call: Call) -> Any:
    """log(sigmoid(x)), and a buffer that only the gradient needs."""
    operands = [to_operand(call.args[0])]
    result = elementwise(call.evaluation, torch.nn.functional.logsigmoid, operands, UNIT_SCALE)
    return result, result.share()


@rule("leaky_relu", "_prelu_kernel")
def leaky_relu(call: Call) -> Any:
    """Exact for positive numbers, a product for negative ones; the slope is a number or an input."""
    x, slope = call.args[0], call.argument(1, "negative_slope", 0.01)
    operands = [to_operand(x), to_operand(slope, call.arithmetic, x)]

    def function(x: Tensor, slope: Any) -> Tensor:
        if isinstance(slope, Tensor):
            return torch.where(x > 0, x, x * slope)
        return torch.nn.functional.leaky_relu(x, slope)

    def propagate(step: Step, error: Tensor) -> bool:
        (x, slope), (error_x, error_slope) = step.values, step.errors
        unit, omega = step.arithmetic.unit_roundoff, step.arithmetic.underflow
        below = (x if error_x is None else x - error_x).clamp(max=0.0).mul_(slope).abs_()
        torch.add(below.clamp(max=omega), below, alpha=unit, out=error)
        if error_x is None and isinstance(slope, float) and error_slope is not None:
            error.add_(below, alpha=float(error_slope) / abs(slope))
            return True
        return corners_of(function)(step, error)

    if operands[0][1] is None and operands[1][1] is None:
        return elementwise(call.evaluation, function, operands, SLOPE)  # products may be certified
    return elementwise(call.evaluation, function, operands, SLOPE, propagate)
