"""Activations: controls of other formulas and orders, and the usual mistakes."""

from __future__ import annotations

import math

import torch
from torch.nn import functional

from gpuemu.corpus.population.implementation import (
    Function,
    Implementation,
    coarse,
    control,
    eager,
    mutant,
    truncated,
)

Tensor = torch.Tensor
LOG2_E = 1.4426950408889634
SQRT_2_OVER_PI = 0.7978845608028654
GELU_CUBIC = 0.044715


def gelu_tanh(x: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + torch.tanh(SQRT_2_OVER_PI * (x + GELU_CUBIC * x * x * x)))


def gelu_sigmoid(x: Tensor) -> Tensor:
    """1 + tanh(z) = 2 / (1 + exp(-2z)): the form without a tanh, which kernels prefer."""
    return x / (1.0 + torch.exp(-2.0 * SQRT_2_OVER_PI * (x + GELU_CUBIC * x * x * x)))


def gelu_factored(x: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + torch.tanh(SQRT_2_OVER_PI * x * (1.0 + GELU_CUBIC * x * x)))


def sigmoid_exp2(x: Tensor) -> Tensor:
    return 1.0 / (1.0 + torch.exp2(-x * LOG2_E))


def sigmoid_stable(x: Tensor) -> Tensor:
    small = torch.exp(-x.abs())
    return torch.where(x < 0, small / (1.0 + small), 1.0 / (1.0 + small))


def tanh_sigmoid(x: Tensor) -> Tensor:
    return 2.0 * torch.sigmoid(2.0 * x) - 1.0


def tanh_exp(x: Tensor) -> Tensor:
    small = torch.exp(-2.0 * x.abs())
    return torch.copysign((1.0 - small) / (1.0 + small), x)


def elu_exp(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, torch.exp(x.clamp(max=0.0)) - 1.0)


def in_halves(function: Function) -> Function:
    """The flattened input in two launches, as a kernel with a tail works on it."""

    def call(*inputs: Tensor) -> Tensor:
        flat = [x.reshape(-1) for x in inputs]
        middle = flat[0].numel() // 3
        parts = [function(*(x[s] for x in flat)) for s in (slice(0, middle), slice(middle, None))]
        return torch.cat(parts).reshape(inputs[0].shape)

    return call


def without_last(function: Function, count: int) -> Function:
    """The tail of the last row is never written and stays zero."""

    def call(*inputs: Tensor) -> Tensor:
        result = function(*inputs).clone()
        result.reshape(-1)[-count:] = 0.0
        return result

    return call


def one_off(function: Function) -> Function:
    """One element of the result is off by 2^-7 of itself."""

    def call(*inputs: Tensor) -> Tensor:
        result = function(*inputs).clone().contiguous()
        flat = result.view(-1)
        flat[flat.numel() // 2] *= 1.0 + 2.0**-7
        return result

    return call


def in_16_bits(function: Function) -> Function:
    """Everything in bfloat16, whatever the inputs' dtype."""
    return lambda *inputs: function(*(x.bfloat16() for x in inputs)).to(inputs[0].dtype)


def cut_off(function: Function) -> Function:
    """The float32 result truncated to 8 significant bits before it is stored."""
    return lambda *inputs: truncated(function(*(x.float() for x in inputs)), 16).to(inputs[0].dtype)


def leaky(slope: float) -> Function:
    return lambda x: torch.where(x > 0, x, slope * x)


def swiglu(a: Tensor, b: Tensor) -> Tensor:
    return a * sigmoid_exp2(a) * b


def geglu(a: Tensor, b: Tensor) -> Tensor:
    return gelu_sigmoid(a) * b


_EAGER: dict[str, tuple[Function, bool]] = {
    "gelu": (lambda x: functional.gelu(x, approximate="tanh"), False),
    "silu": (functional.silu, False),
    "relu": (functional.relu, False),
    "sigmoid": (torch.sigmoid, False),
    "tanh": (torch.tanh, False),
    "elu": (functional.elu, False),
    "leaky_relu": (functional.leaky_relu, False),
    "swiglu": (lambda a, b: functional.silu(a) * b, True),
    "geglu": (lambda a, b: functional.gelu(a, approximate="tanh") * b, True),
}
_CONTROLS: dict[str, dict[str, Function]] = {
    "gelu": {"naive": gelu_tanh, "sigmoid_form": gelu_sigmoid, "factored": gelu_factored},
    "silu": {"naive": lambda x: x / (1.0 + torch.exp(-x)), "exp2": lambda x: x * sigmoid_exp2(x)},
    "relu": {
        "naive": lambda x: torch.maximum(x, torch.zeros_like(x)),
        "where": lambda x: torch.where(x <= 0, 0.0, x),
    },
    "sigmoid": {"naive": lambda x: 1.0 / (1.0 + torch.exp(-x)), "exp2": sigmoid_exp2, "stable": sigmoid_stable},
    "tanh": {"sigmoid_form": tanh_sigmoid, "exp_form": tanh_exp},
    "elu": {"naive": elu_exp, "expm1": lambda x: torch.where(x > 0, x, torch.expm1(x.clamp(max=0.0)))},
    "leaky_relu": {"naive": leaky(0.01), "maximum": lambda x: torch.maximum(x, 0.01 * x)},
    "swiglu": {"naive": lambda a, b: a / (1.0 + torch.exp(-a)) * b, "exp2": swiglu},
    "geglu": {"naive": lambda a, b: gelu_tanh(a) * b, "sigmoid_form": geglu},
}


def _first(op: str) -> Function:
    """The plainest control of an op."""
    return next(iter(_CONTROLS[op].values()))


_MUTANTS = (
    mutant("gelu", "erf_form", functional.gelu, "S", "the erf form where the tanh form is declared"),
    mutant("gelu", "without_half", lambda x: 2.0 * gelu_tanh(x), "S", "the leading 0.5 is dropped"),
    mutant(
        "gelu",
        "cubic_constant",
        lambda x: 0.5 * x * (1.0 + torch.tanh(SQRT_2_OVER_PI * (x + 0.04715 * x**3))),
        "S",
        "0.04715 in place of 0.044715",
    ),
    mutant(
        "gelu",
        "sqrt_2",
        lambda x: 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0) * (x + GELU_CUBIC * x**3))),
        "S",
        "sqrt(2) in place of sqrt(2/pi)",
    ),
    mutant("silu", "doubled", lambda x: x * torch.sigmoid(2.0 * x), "S", "sigmoid(2x)"),
    mutant(
        "silu", "without_log2e", lambda x: x / (1.0 + torch.exp2(-x)), "S", "exp2 without the factor log2(e)"
    ),
    mutant("silu", "sigmoid_only", torch.sigmoid, "L", "the factor x is forgotten"),
    mutant("relu", "clipped", lambda x: x.clamp(0.0, 6.0), "S", "relu6"),
    mutant("sigmoid", "hard", functional.hardsigmoid, "S", "the hard sigmoid"),
    mutant(
        "sigmoid", "clamped", lambda x: torch.sigmoid(x.clamp(-5.0, 5.0)), "I", "the argument is clamped to 5"
    ),
    mutant(
        "tanh",
        "rational",
        lambda x: (x * (27.0 + x * x) / (27.0 + 9.0 * x * x)).clamp(-1.0, 1.0),
        "S",
        "a rational approximation of 2 digits",
    ),
    mutant(
        "elu", "without_minus_one", lambda x: torch.where(x > 0, x, torch.exp(x)), "S", "the -1 is forgotten"
    ),
    mutant("elu", "alpha", lambda x: functional.elu(x, alpha=1.05), "S", "alpha is 1.05"),
    mutant("leaky_relu", "slope", leaky(0.1), "S", "slope 0.1 in place of 0.01"),
    mutant("leaky_relu", "slope_near", leaky(0.0101), "S", "slope 0.0101 in place of 0.01"),
    mutant("swiglu", "swapped", lambda a, b: functional.silu(b) * a, "L", "gate and value are swapped"),
    mutant("swiglu", "gelu_gate", lambda a, b: functional.gelu(a) * b, "S", "GELU in place of SiLU"),
    mutant("geglu", "erf_form", lambda a, b: functional.gelu(a) * b, "S", "the erf form of GELU"),
    mutant("geglu", "swapped", lambda a, b: gelu_tanh(b) * a, "L", "gate and value are swapped"),
    *(
        mutant(op, "tail", without_last(_first(op), 3), "A", "the last 3 elements are not written")
        for op in ("gelu", "silu", "relu", "tanh", "swiglu")
    ),
    *(
        mutant(op, "one_element", one_off(_first(op)), "H", "one element is off by 2^-7")
        for op in ("gelu", "sigmoid", "elu", "leaky_relu", "geglu")
    ),
    *(
        coarse(op, "bfloat16", in_16_bits(_first(op)), "computed in bfloat16 throughout")
        for op in ("gelu", "silu", "sigmoid", "tanh", "swiglu")
    ),
    *(
        coarse(op, "truncating_store", cut_off(_first(op)), "the result is truncated to 8 bits")
        for op in ("gelu", "silu", "tanh")
    ),
)

IMPLEMENTATIONS: tuple[Implementation, ...] = (
    *(eager(op, function, composed) for op, (function, composed) in _EAGER.items()),
    *(control(op, name, function) for op, forms in _CONTROLS.items() for name, function in forms.items()),
    *(control(op, "in_halves", in_halves(next(iter(forms.values())))) for op, forms in _CONTROLS.items()),
    *_MUTANTS,
)
