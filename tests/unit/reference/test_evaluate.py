"""The evaluation as a whole: values, dtypes, problems, NaN that comes from NaN, untouched inputs."""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest
import torch
from input_regimes import draw
from reference_cases import bound_of, follow, outputs_of
from torch.nn import functional

from gpuemu.errors import UsageError
from gpuemu.model.case import Case
from gpuemu.ops.registry import load_ops
from gpuemu.reference.evaluate import evaluate

FOURTEEN = (
    "softmax", "layernorm", "matmul", "gelu", "silu", "rmsnorm", "l2norm", "relu", "sigmoid", "tanh", "elu",
    "leaky_relu", "attention", "flash_attention",
)  # fmt: skip


@pytest.mark.parametrize("name", FOURTEEN)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_values_are_those_of_plain_float64(name: str, dtype: str) -> None:
    op = load_ops()[name]
    dims = dict(zip(op.domains, (3, 2, 19), strict=True))
    inputs = {
        n: draw("normal", op.shape_of(n, dims), i, getattr(torch, dtype)) for i, n in enumerate(op.inputs)
    }
    case = Case(name, dims, dtype, {}, {}, {}, 0)
    plain = op.reference(*(x.double() for x in inputs.values()))
    for profile in ("P0", "P1", "PT", "P2"):
        expected = evaluate(op, case, inputs, profile)
        assert expected.problem is None
        assert expected.profile == profile
        assert expected.generic == ()
        (output,) = expected.outputs
        assert torch.equal(output.value, plain)
        assert output.dtype == dtype
        assert output.bound.dtype == torch.float64
        assert output.bound.shape == plain.shape
        assert output.expects_nan is None


@pytest.mark.parametrize("name", FOURTEEN)
def test_every_profile_permits_at_least_what_the_tighter_one_does(name: str) -> None:
    op = load_ops()[name]
    dims = dict(zip(op.domains, (3, 2, 19), strict=True))
    inputs = {n: draw("normal", op.shape_of(n, dims), i, torch.float16) for i, n in enumerate(op.inputs)}
    case = Case(name, dims, "float16", {}, {}, {}, 0)
    bounds = [evaluate(op, case, inputs, profile).outputs[0].bound for profile in ("P0", "P1", "P2")]
    assert bool((bounds[0] <= bounds[1]).all())
    assert bool((bounds[1] <= bounds[2]).all())


def test_the_references_own_error_is_far_below_the_kernels() -> None:
    x = draw("normal", (4, 64), 0)
    own = bound_of(lambda x: functional.softmax(x, -1), x, unit_roundoff=2.0**-53)
    permitted = bound_of(lambda x: functional.softmax(x, -1), x)
    assert bool((own > 0).all())
    torch.testing.assert_close(own / permitted, torch.full_like(own, 2.0**-29), rtol=1e-3, atol=0)


def test_the_references_own_error_knows_no_float32_range() -> None:
    x = torch.tensor([1e30, -2e35])
    assert bool(bound_of(torch.square, x).isinf().all())
    assert bool((bound_of(torch.square, x, unit_roundoff=2.0**-53) < 1e60).all())


def test_inputs_are_left_untouched() -> None:
    def greedy(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        x.mul_(3.0)
        i.add_(1)
        x[0] = 0.0
        return x + i

    x, i = torch.ones(3, dtype=torch.float64), torch.arange(3)
    ((value, _),) = outputs_of(greedy, x, i)
    assert value.tolist() == [1.0, 5.0, 6.0]
    assert x.tolist() == [1.0, 1.0, 1.0]
    assert i.tolist() == [0, 1, 2]


def test_a_reference_that_raises_is_a_problem_in_one_line() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no\nsuch luck")

    expected = follow(broken, torch.ones(3))
    assert expected.outputs == ()
    assert expected.problem == "ValueError: no such luck"


def test_a_reference_that_exits_is_a_problem() -> None:
    assert follow(lambda x: sys.exit(3), torch.ones(3)).problem == "SystemExit: 3"
    assert follow(lambda x: sys.exit(), torch.ones(3)).problem == "SystemExit"


def test_an_interrupt_passes() -> None:
    def interrupted(x: torch.Tensor) -> torch.Tensor:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow(interrupted, torch.ones(3))


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (lambda x: x.reshape(5), "RuntimeError"),
        (lambda x: 3, "int, not a tensor"),
        (lambda x: x + torch.rand_like(x), "random"),
        (functional.dropout, "random"),
        (lambda x: x * (x + 0.1).sum().item(), "Python number"),
        (lambda x: x if (x + 0.1).sum() > 0.05 else -x, None),
        (lambda x: torch.exp(x, out=torch.empty_like(x)), "in place"),
        (lambda x: torch.view_as_complex(x.reshape(2, 2)), "complex"),
        (lambda x: torch.zeros(4, dtype=torch.int64).copy_(x * 0.3), "plain tensor"),
    ],
)
def test_what_cannot_be_followed_is_a_problem(reference: Any, words: str | None) -> None:
    problem = follow(reference, torch.tensor([0.5, 1.0, 2.0, 3.0])).problem
    assert (problem is None) if words is None else (problem is not None and words in problem)


def test_an_unknown_profile_is_the_callers_mistake() -> None:
    with pytest.raises(UsageError, match="P9"):
        follow(torch.exp, torch.ones(2), profile="P9")


def test_integers_and_bools_keep_their_dtype() -> None:
    expected = follow(
        lambda x, i: (x > 0, i * 2, x.argmax(), x), torch.tensor([0.5, -1.0]), torch.tensor([1, 2])
    )
    assert [output.dtype for output in expected.outputs] == ["bool", "int64", "int64", "float32"]
    assert all(bool((output.bound == 0).all()) for output in expected.outputs)


def test_declared_output_dtypes_win() -> None:
    expected = follow(lambda x: (x, x), torch.ones(2, dtype=torch.float16), output_dtypes=("float32", None))
    assert [output.dtype for output in expected.outputs] == ["float32", "float16"]


def test_parameters_reach_the_reference() -> None:
    ((value, _),) = outputs_of(lambda x, power: x**power, torch.tensor([3.0]), params={"power": 2})
    assert value.item() == 9.0


def test_empty_tensors_are_followed() -> None:
    for reference in (torch.relu, torch.exp, lambda x: functional.softmax(x, -1), lambda x: x @ x.T, torch.sum):
        assert follow(reference, torch.empty(0, 5)).problem is None


def test_nan_from_nan_is_told_from_nan_from_infinities() -> None:
    x = torch.tensor([[1.0, math.nan, 2.0], [1.0, math.inf, math.inf], [1.0, 2.0, 3.0]])
    expected = follow(lambda x: functional.softmax(x, -1), x)
    (output,) = expected.outputs
    assert expected.infinite_input
    assert output.value.isnan().any(1).tolist() == [True, True, False]
    assert output.expects_nan is not None
    assert output.expects_nan.tolist() == [[True] * 3, [False] * 3, [False] * 3]
    assert bool((output.bound[2] < 1e-5).all())


def test_finite_inputs_are_no_infinite_ones() -> None:
    assert not follow(torch.relu, torch.tensor([1.0, math.nan])).infinite_input
    assert follow(torch.relu, torch.tensor([math.nan, -math.inf])).infinite_input


def test_the_same_inputs_give_the_same_bound() -> None:
    x = draw("normal", (3, 7), 0)
    first, second = (follow(torch.special.airy_ai, x) for _ in range(2))
    assert first.generic == ("special_airy_ai",)
    assert torch.equal(first.outputs[0].bound, second.outputs[0].bound)


def test_strides_do_not_matter() -> None:
    x = draw("normal", (6, 8), 0)
    reference = lambda x: functional.layer_norm(x.T.contiguous().view(8, 6), (6,))  # noqa: E731
    expected, strided = follow(reference, x), follow(reference, x.T.contiguous().T)
    assert torch.equal(expected.outputs[0].bound, strided.outputs[0].bound)
