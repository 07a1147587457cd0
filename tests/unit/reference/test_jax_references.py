"""References written with JAX: their traced program is carried out under the bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpuemu.inputs.fill import make_inputs
from gpuemu.model.expected import Expected
from gpuemu.model.op import Dim, Op
from gpuemu.planning.plan import make_plan
from gpuemu.reference.evaluate import evaluate
from gpuemu.reference.framework import find_framework

SIZES = {"B": Dim(3, 5), "H": Dim(17, 60)}


def expected_of(reference: Callable[..., Any]) -> tuple[Expected, np.ndarray]:
    op = Op("r", inputs={"x": "B H"}, dims=SIZES, reference=reference, dtypes=("float32",))
    case = make_plan(op, budget=2, seed=0).cases[1]
    arguments = make_inputs(op, case)
    return evaluate(op, case, arguments, "P0"), arguments["x"].numpy().copy()


def scan(x: Any) -> Any:
    def step(carry: Any, row: Any) -> tuple[Any, Any]:
        carry = 0.5 * carry + row
        return carry, carry

    return jax.lax.scan(step, jnp.zeros(x.shape[1]), x)[1]


def reversed_product(row: Any) -> Any:
    return jnp.dot(row, row[::-1])


def loop(x: Any) -> Any:
    return jax.lax.fori_loop(0, 3, lambda i, y: y * 0.5 + x[i % 2], x)


FOLLOWED: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda x: jax.nn.softmax(x, axis=-1),
    "log_softmax": lambda x: jax.nn.log_softmax(x, axis=-1),
    "gelu": lambda x: jax.nn.gelu(x, approximate=True),
    "gelu_erf": lambda x: jax.nn.gelu(x, approximate=False),
    "silu": jax.nn.silu,
    "layer_norm": lambda x: (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5),
    "attention": lambda x: jax.nn.softmax(x @ x.T / jnp.sqrt(x.shape[1]), axis=-1) @ x,
    "scan": scan,
    "reverse_scan": lambda x: jax.lax.cumsum(x, axis=1, reverse=True),
    "loop": loop,
    "rows": lambda x: jnp.take(x, jnp.array([1, 0, 1]), axis=0),
    "columns": lambda x: x[:, jnp.array([3, 0])],
    "batch": lambda x: jnp.einsum("bh,bk->bhk", x, x).transpose(2, 0, 1),
    "vmapped": jax.vmap(reversed_product),
    "where": lambda x: jnp.where(x > 0, x, 0.01 * x),
    "rotary": lambda x: jnp.concatenate([x[:, 1:2] * jnp.cos(x[:, :1]), -x[:, :1]], axis=-1),
    "logsumexp": lambda x: jax.scipy.special.logsumexp(x, axis=-1),
    "gradient": jax.grad(lambda x: jnp.sum(jnp.tanh(x) ** 2)),
    "clipped": lambda x: jnp.clip(x, -1, 1) + jnp.sign(x) + jnp.round(x * 2),
    "padded": lambda x: jnp.pad(x, ((0, 0), (1, 2)))[:, ::2],
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_values_are_jaxs_and_bounds_hold_for_its_own_float32(name: str) -> None:
    reference = FOLLOWED[name]
    expected, x = expected_of(reference)
    assert expected.problem is None and expected.generic == ()
    (output,) = expected.outputs
    with jax.enable_x64(True):
        exact = np.asarray(reference(jnp.asarray(x.astype(np.float64))))
    np.testing.assert_allclose(output.value.numpy(), exact, rtol=1e-12, atol=1e-12)
    lost = np.abs(np.asarray(reference(jnp.asarray(x)), dtype=np.float64) - exact)
    assert (lost <= output.bound.numpy() + np.spacing(np.abs(exact).astype(np.float32)) / 2).all()
    assert float(output.bound.max()) <= 1e-3 * max(1.0, float(np.abs(exact).max()))


def test_a_primitive_without_a_counterpart_gets_a_generic_bound_that_names_it() -> None:
    expected, x = expected_of(lambda x: jnp.abs(jnp.fft.fft(x)))
    assert expected.problem is None
    assert "complex" in expected.generic[0] or "fft" in expected.generic[0]
    np.testing.assert_allclose(
        expected.outputs[0].value.numpy(), np.abs(np.fft.fft(x.astype(float))), rtol=1e-9
    )


def test_a_branch_that_rounding_may_take_is_not_followed_blindly() -> None:
    expected, _ = expected_of(lambda x: jax.lax.cond(jnp.sum(x) >= jnp.sum(x[:, ::-1]), jnp.sin, jnp.cos, x))
    assert "branches" in expected.generic[0]


def test_jax_is_recognised() -> None:
    assert find_framework(scan) == "jax"
    assert find_framework(FOLLOWED["gradient"]) == "jax"
