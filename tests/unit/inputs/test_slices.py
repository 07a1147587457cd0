"""Parts of a case: which elements, in which layout, and what cannot be cut."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gpuemu.errors import OpDefinitionError
from gpuemu.inputs import layouts
from gpuemu.inputs.slices import make_slices
from gpuemu.model.case import Case
from gpuemu.model.op import Contract, Dim, Op


def cut(sizes: dict[str, int], inputs: dict[str, torch.Tensor], seed: int = 0, **fields: Any) -> Any:
    declared = {
        "inputs": {"x": "B S H", "w": "H"},
        "dims": {"B": Dim(1, 64), "S": Dim(1, 64), "H": Dim(1, 64)},
        "contract": Contract(batch_invariant=("B", "S")),
        **fields,
    }
    op = Op("cut", reference=lambda x, w: x * w, **declared)
    return make_slices(op, Case("cut", sizes, "float32", {}, {}, {}, seed), inputs)


def test_a_part_holds_the_same_values_contiguously_in_the_inputs_order() -> None:
    x = layouts.apply(torch.arange(24.0).reshape(4, 2, 3), "transposed")
    inputs = {"x": x, "w": torch.ones(3)}
    for seed in range(9):
        first, second = cut({"B": 4, "S": 2, "H": 3}, inputs, seed)
        assert (first.dim, first.size, first.start, first.width) == ("B", 4, seed % 4, 1)
        assert (second.dim, second.size, second.start, second.width) == ("S", 2, seed % 2, 1)
        assert list(first.inputs) == ["x", "w"]
        assert torch.equal(first.inputs["x"], x[seed % 4 : seed % 4 + 1])
        assert torch.equal(second.inputs["x"], x[:, seed % 2 : seed % 2 + 1])
        for part in (first, second):
            assert all(tensor.is_contiguous() for tensor in part.inputs.values())
            assert part.inputs["x"].untyped_storage().nbytes() == part.inputs["x"].nbytes
            assert part.inputs["w"].data_ptr() != inputs["w"].data_ptr()


def test_a_dim_of_one_has_no_part() -> None:
    (only,) = cut({"B": 1, "S": 2, "H": 3}, {"x": torch.ones(1, 2, 3), "w": torch.ones(3)})
    assert only.dim == "S"


def test_where_one_is_not_admitted_the_smallest_size_is_cut() -> None:
    dims = {"B": Dim(2, 64, multiple_of=2), "S": 2, "H": Dim(1, 64)}
    part = cut({"B": 8, "S": 2, "H": 3}, {"x": torch.ones(8, 2, 3), "w": torch.ones(3)}, 5, dims=dims)[0]
    assert (part.start, part.width, part.inputs["x"].shape) == (5, 2, (2, 2, 3))


def test_a_constraint_that_excludes_every_part_is_a_mistake_of_the_op() -> None:
    with pytest.raises(OpDefinitionError, match=r"batch_invariant names 'B'.*excludes B=1"):
        cut({"B": 4, "S": 2, "H": 3}, {"x": torch.ones(4, 2, 3), "w": torch.ones(3)}, constraints=["B >= S"])


def test_the_axes_of_declared_outputs_are_known() -> None:
    inputs = {"x": torch.ones(4, 2, 3), "w": torch.ones(3)}
    first, second = cut({"B": 4, "S": 2, "H": 3}, inputs, outputs=("S B", "H"))
    assert (first.output_axes, second.output_axes) == ((1, None), (0, None))
    assert cut({"B": 4, "S": 2, "H": 3}, inputs)[0].output_axes == ()
