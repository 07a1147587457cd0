"""The activations' references against closed forms in 50 digits."""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import pytest
import torch

from gpuemu.ops.registry import get_op

mpmath.mp.dps = 50
CLOSED_FORMS: dict[str, Callable[[mpmath.mpf], mpmath.mpf]] = {
    "gelu": lambda x: (
        x / 2 * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)))
    ),
    "silu": lambda x: x / (1 + mpmath.exp(-x)),
    "relu": lambda x: max(x, mpmath.mpf(0)),
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "tanh": mpmath.tanh,
    "elu": lambda x: x if x > 0 else mpmath.expm1(x),
    "leaky_relu": lambda x: x if x > 0 else x / 100,
}
POINTS = (-700.0, -30.0, -3.25, -1.0, -1e-9, 0.0, 1e-9, 0.5, 1.0, 3.25, 30.0, 700.0)


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_a_reference_is_its_closed_form(name: str) -> None:
    actual = get_op(name).reference(torch.tensor(POINTS, dtype=torch.float64).reshape(1, 3, 4))
    assert actual.shape == (1, 3, 4)
    for x, y in zip(POINTS, actual.flatten().tolist(), strict=True):
        exact = CLOSED_FORMS[name](mpmath.mpf(x))
        # gelu subtracts from 1 inside: its error is relative to x.
        scale = max(abs(exact), abs(x) if name == "gelu" else 0)
        assert abs(y - exact) <= 1e-15 * scale, x


def test_an_activation_is_defined_on_any_sizes_of_its_domain() -> None:
    for name in CLOSED_FORMS:
        op = get_op(name)
        assert list(op.inputs) == ["x"]
        assert op.shape_of("x", {"B": 2, "S": 7, "H": 1025}) == (2, 7, 1025)
        assert op.admits({"B": 1, "S": 1, "H": 1})
        assert not op.admits({"B": 1, "S": 1, "H": 0})


def test_relu_keeps_nan() -> None:
    assert get_op("relu").reference(torch.tensor([float("nan")])).isnan().all()


@pytest.mark.parametrize(("name", "gate"), [("swiglu", "silu"), ("geglu", "gelu")])
def test_a_gated_activation_is_the_activation_times_the_value(name: str, gate: str) -> None:
    a = torch.tensor(POINTS, dtype=torch.float64)
    b = torch.linspace(-2, 2, len(POINTS), dtype=torch.float64)
    for x, y, found in zip(POINTS, b.tolist(), get_op(name).reference(a, b).tolist(), strict=True):
        exact = CLOSED_FORMS[gate](mpmath.mpf(x)) * mpmath.mpf(y)
        assert abs(found - exact) <= 1e-15 * max(abs(exact), abs(x * y) if gate == "gelu" else 0), x
