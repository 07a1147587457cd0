"""The baseline oracles are torch.allclose with the published tolerances."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu.oracle.baselines import BASELINES, Baseline, accepts

BY_NAME = {baseline.name: baseline for baseline in BASELINES}
PUBLISHED = {
    "allclose_1e-5_1e-2": (1e-5, 1e-2),
    "allclose_1e-2_1e-2": (1e-2, 1e-2),
    "allclose_1e-4_1e-4": (1e-4, 1e-4),
}


def test_the_four_baselines_of_the_study_are_there() -> None:
    assert list(BY_NAME) == [*PUBLISHED, "kernelbench"]
    assert [BY_NAME[name].trials for name in BY_NAME] == [1, 1, 1, 5]


@pytest.mark.parametrize("name", PUBLISHED)
@settings(max_examples=40, deadline=None)
@given(
    reference=st.floats(-100, 100, width=32),
    factor=st.sampled_from([0.0, 0.5, 0.99, 1.01, 2.0, 100.0]),
    dtype=st.sampled_from(["float32", "float16", "bfloat16"]),
)
def test_allclose_baselines_agree_with_torch(name: str, reference: float, factor: float, dtype: str) -> None:
    atol, rtol = PUBLISHED[name]
    expected = torch.tensor([reference])
    actual = expected + factor * (atol + rtol * expected.abs())
    truth = torch.allclose(actual, expected, atol=atol, rtol=rtol)
    assert accepts(BY_NAME[name], actual, expected, dtype) == truth


def test_sixteen_bit_values_are_compared_as_float32() -> None:
    actual, reference = torch.tensor([1.0078125]).bfloat16(), torch.tensor([1.0])
    assert accepts(BY_NAME["allclose_1e-5_1e-2"], actual, reference, "bfloat16")
    assert not accepts(BY_NAME["allclose_1e-4_1e-4"], actual, reference, "bfloat16")


def test_nan_equals_nothing() -> None:
    nan = torch.tensor([float("nan"), 1.0])
    for baseline in BASELINES:
        assert not baseline.accepts(nan, nan, "float32")


@pytest.mark.parametrize(
    ("dtype", "error", "accepted"),
    [
        ("float32", 1.9e-4, True),
        ("float32", 2.1e-4, False),
        ("float16", 1.9e-2, True),
        ("float16", 2.1e-2, False),
        ("bfloat16", 1.9e-2, True),
        ("bfloat16", 2.1e-2, False),
    ],
)
def test_kernelbench_allows_atol_plus_rtol_by_dtype(dtype: str, error: float, accepted: bool) -> None:
    reference = torch.ones(10)
    assert accepts(BY_NAME["kernelbench"], reference + error, reference, dtype) == accepted


def test_kernelbench_wants_equal_shapes_and_allclose_broadcasts() -> None:
    one, many = torch.ones(1), torch.ones(3, 4)
    assert not accepts(BY_NAME["kernelbench"], one, many, "float32")
    assert accepts(BY_NAME["allclose_1e-4_1e-4"], one, many, "float32")
    assert not accepts(BY_NAME["allclose_1e-4_1e-4"], torch.ones(3, 5), many, "float32")


def test_zeros_pass_an_absolute_tolerance_where_the_answer_is_small() -> None:
    """KernelBench issue #165: softmax over many columns is below atol, so that zeros are accepted."""
    tiny = torch.softmax(torch.randn(4, 20_000, generator=torch.Generator().manual_seed(0)), dim=-1)
    zeros = torch.zeros_like(tiny)
    assert accepts(BY_NAME["kernelbench"], zeros, tiny.half(), "float16")
    assert accepts(BY_NAME["allclose_1e-2_1e-2"], zeros, tiny, "float32")
    assert not accepts(BY_NAME["allclose_1e-5_1e-2"], zeros, tiny, "float32")


def test_a_dtype_without_its_own_tolerance_takes_the_general_one() -> None:
    baseline = Baseline("mine", {"": 0.5, "float16": 1.0}, {"": 0.0})
    assert not baseline.accepts(torch.tensor([0.7]), torch.zeros(1), "float32")
    assert baseline.accepts(torch.tensor([0.7]), torch.zeros(1), "float16")
