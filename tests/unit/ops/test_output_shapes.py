"""The outputs' symbolic shapes as a reference's runs give them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpuemu.errors import OpDefinitionError
from gpuemu.model.op import Dim, Op, Tensor
from gpuemu.ops.output_shapes import OutputShape, find_output_shapes
from gpuemu.ops.registry import get_op

DIMS = {"B": Dim(1, 8), "H": Dim(1, 64)}


def op_of(reference: Callable[..., Any], **more: Any) -> Op:
    return Op("sample", **{"inputs": {"x": "B H"}, "dims": DIMS, "reference": reference, **more})


@pytest.mark.parametrize(
    ("reference", "shape"),
    [
        (lambda x: x + 1, "B H"),
        (lambda x: x.T, "H B"),
        (lambda x: x.sum(), ""),
        (lambda x: x.sum(-1, keepdim=True), "B 1"),
        (lambda x: x.flatten(), "B*H"),
        (lambda x: x.unsqueeze(1).expand(-1, 3, -1), "B 3 H"),
    ],
)
def test_an_axis_is_a_dim_a_product_of_dims_or_a_number(reference: Callable[..., Any], shape: str) -> None:
    assert find_output_shapes(op_of(reference)) == (OutputShape(shape, (), True),)


def test_an_axis_may_be_that_of_an_input() -> None:
    op = op_of(lambda x: x, inputs={"x": "B 2*H"})
    assert find_output_shapes(op)[0].shape == "B 2*H"


def test_outputs_of_integers_are_told_from_floats() -> None:
    found = find_output_shapes(op_of(lambda x: tuple(x.max(-1))))
    assert [(output.shape, output.is_float) for output in found] == [("B", True), ("B", False)]


def test_a_reduction_parameter_gives_a_variant() -> None:
    (output,) = find_output_shapes(get_op("cross_entropy"))
    assert output.shape == "N"
    assert output.variants == (("reduction", "mean", ""), ("reduction", "sum", ""))
    backward = get_op("cross_entropy.backward")
    assert backward.shape_of("upstream", {"N": 3, "V": 5}, {"reduction": "sum"}) == ()
    assert backward.shape_of("upstream", {"N": 3, "V": 5}, {"reduction": "none"}) == (3,)


def test_dims_that_are_multiples_or_listed_are_tried_within_their_domain() -> None:
    dims = {"B": [64, 128], "H": Dim(8, 64, multiple_of=8)}
    assert find_output_shapes(op_of(lambda x: x.T, dims=dims))[0].shape == "H B"


def test_declared_shapes_are_taken_as_they_are() -> None:
    op = op_of(lambda x: x.nonzero(), outputs=("B H", "H"), output_dtypes=("int64", None))
    assert find_output_shapes(op) == (OutputShape("B H", (), False), OutputShape("H", (), True))


@pytest.mark.parametrize(
    ("reference", "more", "reason"),
    [
        (lambda x: x.flatten()[: x.shape[0] * 2 + 1], {}, "no dim, axis or product of dims"),
        (lambda x: 1 / 0, {}, "raises ZeroDivisionError"),
        (lambda x: "text", {}, "something else than tensors"),
        (
            lambda x, y: x,
            {"inputs": {"x": "B H", "y": Tensor("B")}, "constraints": ["B > 100"]},
            "no small sizes",
        ),
    ],
)
def test_shapes_that_cannot_be_told_are_asked_for(
    reference: Callable[..., Any], more: dict[str, Any], reason: str
) -> None:
    with pytest.raises(OpDefinitionError, match=f"{reason}.*outputs=") as caught:
        find_output_shapes(op_of(reference, **more))
    assert "\n" not in str(caught.value)


def test_the_reference_is_run_on_plain_tensors_only() -> None:
    seen: list[Any] = []

    def reference(x: torch.Tensor) -> torch.Tensor:
        seen.append(x)
        return x

    find_output_shapes(op_of(reference))
    assert all(type(x) is torch.Tensor and not x.requires_grad and x.numel() < 4096 for x in seen)
