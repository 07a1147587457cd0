"""References written with NumPy: followed through its protocols, or evaluated at random points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from gpuemu.inputs.fill import make_inputs
from gpuemu.model.expected import Expected
from gpuemu.model.op import Dim, Op
from gpuemu.planning.plan import make_plan
from gpuemu.reference.evaluate import evaluate
from gpuemu.reference.framework import find_framework

SIZES = {"B": Dim(3, 5), "H": Dim(17, 60)}


def expected_of(reference: Callable[..., Any], **inputs: str) -> tuple[Expected, list[np.ndarray]]:
    op = Op("r", inputs=inputs or {"x": "B H"}, dims=SIZES, reference=reference, dtypes=("float32",))
    case = make_plan(op, budget=2, seed=0).cases[1]
    arguments = make_inputs(op, case)
    return evaluate(op, case, arguments, "P0"), [a.numpy().copy() for a in arguments.values()]


def softmax(x: Any) -> Any:
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    return shifted / np.sum(shifted, axis=-1, keepdims=True)


def layer_norm(x: Any) -> Any:
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def attention(x: Any) -> Any:
    weights = softmax(np.einsum("ij,kj->ik", x, x) / np.sqrt(x.shape[-1]))
    return np.dot(weights, x)


FOLLOWED = {
    "softmax": softmax,
    "layer_norm": layer_norm,
    "attention": attention,
    "where": lambda x: np.where(x > 0, x, 0.01 * x),
    "clip": lambda x: np.clip(x, -1.0, 1.0).astype(np.float32) * 2.0,
    "stack": lambda x: np.concatenate([x, np.flip(x, 1)], axis=1).reshape(-1, 2).T,
    "cumulative": lambda x: np.cumsum(x, axis=1) + np.maximum.accumulate(x, axis=1),
    "reduce": lambda x: np.add.reduce(x, axis=0) * np.max(x) - x.std(),
    "index": lambda x: x[:, ::2] - x[0, 1] + np.take(x, np.array([1, 0]), axis=0)[0, 0],
    "triangle": lambda x: np.tril(x) + np.roll(x, 1, axis=1) + np.pad(x, ((0, 0), (1, 0)))[:, 1:],
    "sorted": lambda x: np.sort(x, axis=-1),
    "norm": lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True),
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_values_are_numpys_and_bounds_hold_for_its_own_float32(name: str) -> None:
    reference = FOLLOWED[name]
    expected, (x,) = expected_of(reference)
    assert expected.problem is None and expected.generic == ()
    (output,) = expected.outputs
    exact = np.asarray(reference(x.astype(np.float64)))
    np.testing.assert_allclose(output.value.numpy(), exact, rtol=1e-13, atol=1e-13)
    lost = np.abs(np.asarray(reference(x), dtype=np.float64) - exact)
    assert (lost <= output.bound.numpy() + np.spacing(np.abs(exact).astype(np.float32)) / 2).all()


def test_a_numpy_reference_has_the_bound_of_the_same_torch_code() -> None:
    there, _ = expected_of(lambda x: torch.exp(x - x.amax(-1, keepdim=True)))
    here, _ = expected_of(lambda x: np.exp(x - np.max(x, axis=-1, keepdims=True)))
    torch.testing.assert_close(here.outputs[0].bound, there.outputs[0].bound)


def into_a_plain_buffer(x: Any) -> Any:
    result = np.zeros(x.shape)
    for row in range(x.shape[0]):
        result[row] = np.exp(x[row])
    return result


@pytest.mark.parametrize(
    "reference",
    [into_a_plain_buffer, lambda x: np.convolve(x[0], np.ones(3)), lambda x: np.sum(x, axis=1, initial=3.0)],
)
def test_what_cannot_be_mapped_gets_a_generic_bound_and_says_so(reference: Callable[[Any], Any]) -> None:
    expected, (x,) = expected_of(reference)
    assert expected.problem is None
    assert expected.generic and expected.generic[0].startswith("reference (")
    (output,) = expected.outputs
    np.testing.assert_array_equal(output.value.numpy(), reference(x.astype(np.float64)))
    assert bool((output.bound > 0).all())


def test_inputs_survive_a_reference_that_writes_into_them() -> None:
    def reference(x: Any) -> Any:
        x[0] = np.abs(x[0])
        return x * 2.0

    expected, (x,) = expected_of(reference)
    exact = x.astype(np.float64) * 2.0
    exact[0] = np.abs(exact[0])
    np.testing.assert_array_equal(expected.outputs[0].value.numpy(), exact)


def test_integers_index_and_several_outputs_come_back() -> None:
    expected, (x,) = expected_of(lambda x: (np.argmax(x, axis=-1), x.min(axis=-1), 7.0))
    indices, smallest, seven = expected.outputs
    np.testing.assert_array_equal(indices.value.numpy(), x.argmax(-1))
    np.testing.assert_array_equal(smallest.value.numpy(), x.min(-1))
    assert float(seven.value) == 7.0


def test_what_the_reference_raises_is_its_problem() -> None:
    expected, _ = expected_of(lambda x: np.exp(x).reshape(7, 7, 7, 7))
    assert expected.problem is not None and "shape" in expected.problem


def test_the_library_is_read_off_the_names_in_the_code() -> None:
    def both(x: Any) -> Any:
        return torch.as_tensor(x) * np.pi

    assert find_framework(softmax) == "numpy"
    assert find_framework(attention) == "numpy"
    assert find_framework(both) == "torch"
    assert find_framework(lambda x: x + 1) == "torch"
    assert find_framework(torch.relu) == "torch"
