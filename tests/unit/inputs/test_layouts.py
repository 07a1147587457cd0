"""Layouts: strides as promised, equal values, loud gaps, and honest names for shapes without room."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpuemu.errors import UsageError
from gpuemu.inputs import layouts
from gpuemu.inputs.layouts import ROW_GAP, apply, effective, geometry
from gpuemu.model.contract import DEFAULT_LAYOUTS, LAYOUTS

DTYPES = (
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e5m2,
    torch.int64,
    torch.int8,
)
shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)
layout_names = st.sampled_from(LAYOUTS)
# Of these, every element has a place of its own.
spread_layout_names = st.sampled_from(DEFAULT_LAYOUTS)


def counted(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """1, 2, 3 ... in row-major order."""
    return (torch.arange(math.prod(shape)) % 100 + 1).reshape(shape).to(dtype)


def storage_of(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())


@pytest.mark.parametrize(
    ("shape", "layout", "strides", "storage_offset", "storage_size"),
    [
        ((2, 3), "contiguous", (3, 1), 0, 6),
        ((2, 3), "transposed", (1, 2), 0, 6),
        ((4, 2, 3), "transposed", (6, 1, 2), 0, 24),
        ((5,), "transposed", (2,), 0, 10),
        ((2, 3), "strided", (6, 2), 0, 12),
        ((4, 2, 3), "strided", (12, 6, 2), 0, 48),
        ((2, 3), "row_gap", (3 + ROW_GAP, 1), 0, 2 * (3 + ROW_GAP)),
        ((4, 2, 3), "row_gap", (2 * (3 + ROW_GAP), 3 + ROW_GAP, 1), 0, 8 * (3 + ROW_GAP)),
        ((5,), "row_gap", (1,), 0, 5 + ROW_GAP),
        ((2, 3), "offset", (3, 1), 1, 7),
        ((), "contiguous", (), 0, 1),
        ((), "offset", (), 1, 2),
        ((0, 3), "strided", (6, 2), 0, 0),
        ((2, 3), "expanded", (0, 0), 0, 1),
        ((5,), "expanded", (0,), 0, 1),
        ((), "expanded", (), 0, 1),
        ((0, 3), "expanded", (0, 0), 0, 0),
    ],
)
def test_strides_offset_and_storage_are_as_promised(
    shape: tuple[int, ...], layout: str, strides: tuple[int, ...], storage_offset: int, storage_size: int
) -> None:
    tensor = apply(counted(shape), layout)
    assert tensor.stride() == strides
    assert tensor.storage_offset() == storage_offset
    assert storage_of(tensor).numel() == storage_size


@given(shape=shapes, layout=spread_layout_names, dtype=st.sampled_from((*DTYPES, torch.bool)))
def test_values_stay_and_gaps_are_loud(shape: tuple[int, ...], layout: str, dtype: torch.dtype) -> None:
    plain = counted(shape, dtype) if dtype != torch.bool else counted(shape) < 0
    tensor = apply(plain, layout)
    assert tensor.dtype == dtype and tensor.shape == plain.shape
    assert torch.equal(tensor.double(), plain.double())
    inside = torch.zeros(storage_of(tensor).numel(), dtype=torch.bool)
    inside.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).fill_(True)
    assert inside.sum() == tensor.numel()  # no two elements share a place
    gaps = storage_of(tensor)[~inside]
    if dtype.is_floating_point:
        assert torch.isnan(gaps).all()
    else:
        assert (gaps == (True if dtype == torch.bool else max(tensor.flatten().tolist(), default=0))).all()


@given(shape=shapes, dtype=st.sampled_from((*DTYPES, torch.bool)))
def test_an_expanded_tensor_is_one_element_in_memory(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    plain = counted(shape, dtype) if dtype != torch.bool else counted(shape) > 0
    tensor = apply(plain, "expanded")
    assert tensor.dtype == dtype and tensor.shape == plain.shape
    assert storage_of(tensor).numel() == min(plain.numel(), 1)
    assert torch.equal(tensor.double(), torch.ones(shape, dtype=torch.float64))


def test_an_expanded_tensor_holds_the_first_element_that_is_not_zero() -> None:
    assert apply(torch.tensor([[0.0, -0.0], [3.0, 5.0]]), "expanded").tolist() == [[3.0, 3.0], [3.0, 3.0]]
    assert apply(torch.tensor([0.0, math.nan, 1.0]), "expanded").isnan().all()
    assert apply(torch.zeros(3), "expanded").tolist() == [0.0, 0.0, 0.0]


def test_an_expanded_tensor_is_what_the_gradient_of_a_sum_is() -> None:
    seen = []
    leaf = torch.zeros(2, 3, requires_grad=True)
    leaf.register_hook(seen.append)
    leaf.sum().backward()
    assert apply(torch.ones(2, 3), "expanded").stride() == seen[0].stride() == (0, 0)


@given(shape=shapes)
def test_a_contiguous_geometry_is_torchs(shape: tuple[int, ...]) -> None:
    assert geometry(shape, "contiguous").strides == torch.empty(shape).stride()


def test_contiguous_is_free_and_mends_any_view() -> None:
    tensor = counted((3, 4))
    assert apply(tensor, "contiguous") is tensor
    for view in (tensor.T, tensor[:, ::2], tensor[1:]):
        mended = apply(view, "contiguous")
        assert mended.is_contiguous() and mended.storage_offset() == 0
        assert torch.equal(mended, view)


@pytest.mark.parametrize("dtype", DTYPES)
def test_offset_breaks_16_byte_alignment(dtype: torch.dtype) -> None:
    assert apply(counted((40,), dtype), "offset").data_ptr() % 16 == dtype.itemsize


def test_row_gap_keeps_the_alignment_of_aligned_rows() -> None:
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        tensor = apply(counted((3, 16), dtype), "row_gap")
        assert tensor[1].data_ptr() % 16 == 0


def test_integer_gaps_stay_valid_as_indices() -> None:
    tensor = apply(torch.tensor([[3, 1], [0, 2]]), "row_gap")
    storage = torch.empty(0, dtype=torch.int64).set_(tensor.untyped_storage())
    assert storage.min() == 0
    assert storage.max() == 3


@pytest.mark.parametrize(
    ("shape", "layout", "truth"),
    [
        ((2, 3), "transposed", "transposed"),
        ((1, 3), "transposed", "contiguous"),
        ((3, 1), "transposed", "contiguous"),
        ((2, 1, 3), "transposed", "contiguous"),
        ((5,), "transposed", "strided"),
        ((1,), "transposed", "contiguous"),
        ((), "transposed", "contiguous"),
        ((5,), "strided", "strided"),
        ((1, 5), "strided", "strided"),
        ((5, 1), "strided", "row_gap"),
        ((1, 1), "strided", "contiguous"),
        ((2, 3), "row_gap", "row_gap"),
        ((2, 1), "row_gap", "row_gap"),
        ((1, 3), "row_gap", "contiguous"),
        ((3,), "row_gap", "contiguous"),
        ((), "offset", "offset"),
        ((1, 1), "offset", "offset"),
        ((0, 3), "offset", "contiguous"),
        ((3, 0), "row_gap", "contiguous"),
        ((2, 3), "expanded", "expanded"),
        ((1, 3), "expanded", "expanded"),
        ((1, 1), "expanded", "contiguous"),
        ((), "expanded", "contiguous"),
        ((0, 3), "expanded", "contiguous"),
    ],
)
def test_effective_layout(shape: tuple[int, ...], layout: str, truth: str) -> None:
    assert effective(shape, layout) == truth


@given(shape=shapes, layout=layout_names)
def test_effective_agrees_with_torch_on_what_is_contiguous(shape: tuple[int, ...], layout: str) -> None:
    tensor = apply(counted(shape), layout)
    truth = effective(shape, layout)
    assert tensor.is_contiguous() == (truth in ("contiguous", "offset"))
    if tensor.numel():
        assert (truth == "offset") == (tensor.storage_offset() != 0)


@given(shape=shapes, layout=spread_layout_names)
def test_a_layout_that_is_effectively_another_reads_memory_in_the_same_pattern(
    shape: tuple[int, ...], layout: str
) -> None:
    """The axes longer than 1 nest in memory in the same order, and without gaps if the true name says so."""
    truth = effective(shape, layout)
    if truth == layout or 0 in shape or len(shape) == 0:
        return
    ours, theirs = geometry(shape, layout).strides, geometry(shape, truth).strides
    long_axes = [axis for axis, size in enumerate(shape) if size > 1]
    assert sorted(long_axes, key=lambda axis: -ours[axis]) == sorted(long_axes, key=lambda axis: -theirs[axis])
    if long_axes and truth == "contiguous":
        assert [ours[axis] for axis in long_axes] == [theirs[axis] for axis in long_axes]


@pytest.mark.parametrize(
    "function", [lambda name: apply(counted((2, 2)), name), lambda name: effective((2,), name)]
)
def test_an_unknown_layout_is_a_usage_error_that_names_the_known(function: object) -> None:
    with pytest.raises(UsageError, match="unknown layout 'diagonal'; known: contiguous, transposed"):
        function("diagonal")  # type: ignore[operator]


def test_every_layout_of_the_model_is_built() -> None:
    strides = {layouts.geometry((3, 5), layout)[:2] for layout in LAYOUTS}
    assert len(strides) == len(LAYOUTS)
