"""Checking a kernel's backward pass: gradients against the float64 vjp, with their own bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import gpuemu
from gpuemu.errors import GpuemuError, OpDefinitionError
from gpuemu.model.op import Dim, Op
from gpuemu.model.verdict import Status
from gpuemu.ops.backward import backward_of
from gpuemu.ops.registry import get_op

DIFFERENTIABLE = (
    "softmax", "layernorm", "rmsnorm", "l2norm", "rms_norm", "layer_norm", "matmul", "gelu", "silu", "relu",
    "sigmoid", "tanh", "elu", "leaky_relu", "swiglu", "geglu", "attention", "cross_entropy", "rope",
)  # fmt: skip


def check(kernel: Any, op: Any, **options: Any) -> gpuemu.Report:
    plain = {"budget": 16, "seed": 5, "store": False, "shrink": False, "dtypes": ["float32"]}
    return gpuemu.check(kernel, op, backward=True, **{**plain, **options})


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_torchs_own_gradients_pass(name: str) -> None:
    report = check(get_op(name).reference, name)
    assert report.passed, report.message
    assert not any(record.verdict.generic for record in report.records)


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "matmul", "gelu"])
def test_torchs_16_bit_gradients_pass_as_eager_arithmetic(name: str) -> None:
    report = check(get_op(name).reference, name, dtypes=["float16"], profile="P2", budget=10)
    assert report.passed, report.message


def kernel_of(forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel with a gradient of its own."""

    class Kernel(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            ctx.save_for_backward(*inputs)
            return forward(*inputs)

        @staticmethod
        def backward(ctx: Any, *upstream: Any) -> Any:
            return backward(*ctx.saved_tensors, *upstream)

    return Kernel.apply


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def softmax_right(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    y = softmax(x)
    return y * (g - (g * y).sum(-1, keepdim=True))


def linear(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def as_if_contiguous(g: torch.Tensor) -> torch.Tensor:
    """A kernel that reads the upstream gradient's memory as if it were laid out row by row."""
    flat = torch.zeros(g.numel())
    memory = torch.as_strided(g, (g.untyped_storage().nbytes() // 4 - g.storage_offset(),), (1,))
    flat[: memory.numel()] = memory[: g.numel()]
    return flat.view(g.shape)


MUTANTS: dict[str, tuple[str, Callable[..., Any]]] = {
    "upstream forgotten": ("softmax", kernel_of(softmax, lambda x, g: softmax_right(x, torch.ones_like(g)))),
    "term dropped": ("softmax", kernel_of(softmax, lambda x, g: softmax(x) * g)),
    "gradient is the input": ("softmax", kernel_of(softmax, lambda x, g: x.clone())),
    "upstream taken for contiguous": (
        "softmax", kernel_of(softmax, lambda x, g: softmax_right(x, as_if_contiguous(g)))
    ),
    "not transposed": (
        "matmul", kernel_of(linear, lambda a, b, g: (g @ b.T, (g.T @ a).reshape(b.shape)))
    ),
    "slope at the wrong place": ("relu", kernel_of(torch.relu, lambda x, g: g * (x > 0.5))),
    "slope of the erf form": (
        "gelu",
        kernel_of(
            lambda x: functional.gelu(x, approximate="tanh"),
            lambda x, g: torch.ops.aten.gelu_backward(g, x),
        ),
    ),
    "one gradient missing": ("matmul", kernel_of(linear, lambda a, b, g: (g @ b.T, None))),
}  # fmt: skip


@pytest.mark.parametrize("fault", MUTANTS)
def test_wrong_gradients_are_found(fault: str) -> None:
    name, kernel = MUTANTS[fault]
    report = check(kernel, name, budget=24)
    assert report.status in (Status.FAIL, Status.ERROR), report.message


def test_a_right_gradient_of_ones_own_passes() -> None:
    assert check(kernel_of(softmax, softmax_right), "softmax").passed


def test_upstreams_are_random_ones_and_of_stride_0() -> None:
    report = check(softmax, "softmax", budget=24)
    classes = {record.case.value_classes["upstream"] for record in report.records}
    layouts = {record.case.layouts["upstream"] for record in report.records}
    assert {"ones", "bell"} <= classes
    assert "expanded" in layouts
    assert "expanded" not in {record.case.layouts["x"] for record in report.records}


def test_a_gradient_kernel_is_a_candidate_of_the_derived_op() -> None:
    options = {"budget": 12, "seed": 1, "store": False, "shrink": False, "dtypes": ["float32"]}
    right = gpuemu.check(softmax_right, "softmax.backward", **options)  # type: ignore[arg-type]
    assert right.passed, right.message
    wrong = gpuemu.check(lambda x, g: softmax(x) * g, "softmax.backward", **options)  # type: ignore[arg-type]
    assert wrong.status is Status.FAIL


def test_a_kernel_without_a_gradient_is_told_what_to_do() -> None:
    report = check(lambda x: torch.softmax(x.detach(), -1), "softmax", budget=4)
    assert report.status is Status.UNSUPPORTED
    assert "autograd.Function" in report.message


def test_inputs_of_which_nobody_asks_the_gradient_get_none() -> None:
    op = get_op("cross_entropy.backward")
    assert [name for name in op.inputs if name.startswith("upstream")] == ["upstream"]
    assert len(op.output_shapes({"N": 3, "V": 5})) == 1


def test_an_op_without_a_float_input_has_no_backward() -> None:
    op = Op("count", {"x": "N : int64"}, {"N": Dim(1, 8)}, reference=lambda x: x + 1)
    with pytest.raises(OpDefinitionError, match="count"):
        backward_of(op)


def test_an_unknown_op_is_named_without_its_suffix() -> None:
    with pytest.raises(GpuemuError, match="sofmax"):
        get_op("sofmax.backward")
