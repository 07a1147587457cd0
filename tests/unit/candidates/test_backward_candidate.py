"""A kernel's own backward pass as a candidate: its gradients, and what it says where it gives none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpuemu.candidates import loader
from gpuemu.candidates.backward import adapt
from gpuemu.errors import CandidateRefusedError
from gpuemu.model.op import Dim, Op

OP = Op(
    "scaled",
    {"x": "B H", "w": "H", "i": "B : int64"},
    {"B": Dim(), "H": Dim()},
    reference=lambda x, w, i: x * w,
)
X, W, INDEX, G = torch.randn(2, 3), torch.randn(3), torch.zeros(2, dtype=torch.int64), torch.randn(2, 3)


def backward_of(function: Callable[..., Any]) -> Any:
    return adapt(loader.from_callable(function, name="kernel"), tuple(OP.inputs), ("x", "w")).call


def test_the_gradients_are_those_of_the_kernels_graph() -> None:
    by_x, by_w = backward_of(lambda x, w, i: x * w)(X, W, INDEX, G)
    assert torch.equal(by_x, G * W)
    assert torch.allclose(by_w, (G * X).sum(0))


def test_it_works_where_gradients_are_switched_off_and_leaves_the_inputs_alone() -> None:
    x = X.clone()
    with torch.no_grad():
        by_x, _ = backward_of(lambda x, w, i: x * w)(x, W, INDEX, G)
    assert not by_x.requires_grad and not x.requires_grad and torch.equal(x, X)


def test_parameters_go_to_the_kernel() -> None:
    by_x, _ = backward_of(lambda x, w, i, factor: x * w * factor)(X, W, INDEX, G, factor=2.0)
    assert torch.allclose(by_x, G * W * 2)


def test_the_upstream_gradient_arrives_as_it_lies_in_memory() -> None:
    strides = []

    class Kernel(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
            return x * w

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> Any:
            strides.append(g.stride())
            return g, g.sum(0), None

    backward_of(Kernel.apply)(X, W, INDEX, torch.ones(()).expand(2, 3))
    assert strides == [(0, 0)]


def test_a_missing_gradient_is_zero_and_noted() -> None:
    call = backward_of(lambda x, w, i: x * w.detach())
    _, by_w = call(X, W, INDEX, G)
    assert by_w.tolist() == [0.0, 0.0, 0.0]
    assert call.notes == ("it gives no gradient of w",)
    backward = backward_of(lambda x, w, i: x * w)
    backward(X, W, INDEX, G)
    assert backward.notes == ()


def test_an_output_without_a_graph_is_refused_with_what_to_do() -> None:
    with pytest.raises(CandidateRefusedError, match=r"wrap it in a torch\.autograd\.Function"):
        backward_of(lambda x, w, i: (x * w).detach())(X, W, INDEX, G)


def test_one_of_two_outputs_without_a_graph_is_noted() -> None:
    op = Op("two", {"x": "B H"}, {"B": Dim(), "H": Dim()}, reference=lambda x: (x, x))
    call: Any = adapt(
        loader.from_callable(lambda x: (x * 2, x.detach().clone())), tuple(op.inputs), ("x",)
    ).call
    (by_x,) = call(X, G, G)
    assert torch.equal(by_x, 2 * G)
    assert call.notes == ("its float output 1 carries no gradient",)


def test_outputs_of_another_shape_are_told_from_wrong_gradients() -> None:
    with pytest.raises(ValueError, match=r"shapes \[\[3, 2\]\], those of the op \[\[2, 3\]\]"):
        backward_of(lambda x, w, i: (x * w).T)(X, W, INDEX, G)
