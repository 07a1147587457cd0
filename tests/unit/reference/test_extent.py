"""What is noted about a tensor's extremes without looking holds when one looks."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from input_regimes import ALL, draw
from reference_cases import follow
from test_native import REFERENCES, SHAPE
from torch.nn import functional

from gpuemu.reference.bounded import Bounded
from gpuemu.reference.extent import (
    Extent,
    carry,
    extent_of,
    find_ends_together,
    is_positive,
    mark,
    mark_positive,
    measure,
    size_of,
    survey,
    union,
)

MORE: dict[str, Any] = {
    "chain": lambda x: torch.exp(torch.tanh(functional.silu(x * 3) * x + 1).square() - x.clamp(-1, 2)),
    "norms": lambda x: functional.silu(functional.layer_norm(x * x[0], (8,), x[1], x[2])) + x,
    "rms": lambda x: functional.rms_norm(x + x * 0.3, (8,), x[0], 1e-6) * torch.sigmoid(x),
    "selection": lambda x: torch.where(x * x > 0.5, x * 0.7, functional.elu(x)).relu() * 2,
}


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[Extent]:
    """Checks the extent and the sign of every tensor that rules make; collects the extents that were known."""
    known: list[Extent] = []
    original = Bounded.__new__

    def make(cls: Any, evaluation: Any, value: Any, error: Any, raw: bool = False) -> Bounded:
        extent = extent_of(value, error)
        assert not is_positive(value) or not bool((value < 0).any())
        if extent is not None and value.numel():
            off = torch.zeros_like(value) if error is None else error
            assert float((value.abs() + off).max()) <= extent.reach * (1.0 + 2.0**-50)
            assert float(off.max()) <= extent.error * (1.0 + 2.0**-50)
            known.append(extent)
        return original(cls, evaluation, value, error, raw)

    monkeypatch.setattr(Bounded, "__new__", make)
    return known


@pytest.mark.parametrize("profile", ["P0", "P2"])
@pytest.mark.parametrize("name", [*REFERENCES, *MORE])
def test_extents_hold(name: str, profile: str, checked: list[Extent]) -> None:
    for seed, regime in enumerate(ALL):
        for dtype in (torch.float32, torch.float16):
            follow({**REFERENCES, **MORE}[name], draw(regime, SHAPE, seed, dtype), profile=profile)
    assert checked


def test_an_extent_is_about_one_pair_of_value_and_error() -> None:
    value, error = torch.ones(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    mark(value, error, Extent(1.0, 0.0))
    assert extent_of(value, error) == Extent(1.0, 0.0)
    assert extent_of(value, torch.full((3,), math.inf, dtype=torch.float64)) is None
    assert extent_of(value, None) is None
    assert extent_of(value.clone(), error) is None


def test_moved_elements_keep_the_extent_of_all() -> None:
    value = torch.tensor([1.0, -3.0], dtype=torch.float64)
    mark(value, None, Extent(3.0))
    moved = value[:1]
    carry(value, None, moved, None)
    assert extent_of(moved, None) == Extent(3.0)


def test_numbers_have_extents_and_infinite_ones_none() -> None:
    assert extent_of(-2.5, None) == Extent(2.5)
    assert extent_of(math.inf, None) is None
    assert extent_of(0.5, torch.tensor(0.1)) is None  # an error of which nothing is known


def test_a_write_forgets_the_extent() -> None:
    def reference(x: torch.Tensor) -> torch.Tensor:
        y = x * 1.0
        y[0] = 1e30
        return torch.exp(y * 1e-29)

    expected = follow(reference, torch.ones(2))
    assert float(expected.outputs[0].value[0]) == pytest.approx(math.exp(10), rel=1e-6)
    assert 0 < float(expected.outputs[0].bound[0]) < 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_has_no_extent(bad: float) -> None:
    value = torch.tensor([1.0, bad], dtype=torch.float64)
    assert measure(value, None) is None
    assert measure(torch.ones_like(value), value.abs()) is None


def test_measured_extents() -> None:
    value = torch.tensor([1.0, -4.0], dtype=torch.float64)
    assert measure(value, torch.tensor([0.5, 0.25], dtype=torch.float64)) == Extent(4.5, 0.5)
    assert measure(value[:0], None) == Extent(0.0)
    assert union([Extent(1.0, 0.5), Extent(4.0, 0.25)]) == Extent(4.0, 0.5)
    assert union([Extent(1.0), None]) is None


@pytest.mark.parametrize(
    ("numbers", "reach", "infinite"),
    [([1.0, -2.0], 2.0, False), ([1.0, math.inf], None, True), ([math.nan, 1.0], None, False),
     ([math.nan, -math.inf], None, True), ([], None, False)],
)  # fmt: skip
def test_a_survey_finds_infinities_behind_nan(
    numbers: list[float], reach: float | None, infinite: bool
) -> None:
    x = torch.tensor(numbers, dtype=torch.float16)
    extents, found = survey([x, torch.tensor([1, 2])])
    assert extents.get(id(x)) == (None if reach is None else Extent(reach))
    assert found is infinite


def test_magnitudes_are_remembered_until_the_tensor_is_written() -> None:
    x = torch.tensor([-1.0, 2.0], dtype=torch.float64)
    assert size_of(x) is size_of(x)
    assert size_of(x).tolist() == [1.0, 2.0]
    x.view(2, 1)[0] = -3.0
    assert size_of(x).tolist() == [3.0, 2.0]


def test_a_sign_is_known_until_the_tensor_is_written() -> None:
    x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert not is_positive(x)
    mark_positive(x)
    assert is_positive(x)
    assert size_of(x) is x
    x.view(2, 1)[0] = -3.0
    assert not is_positive(x)
    assert size_of(x).tolist() == [3.0, 2.0]
    mark_positive(x.abs_())
    mark_positive(x, False)
    assert not is_positive(x)


def test_nothing_is_remembered_of_inference_tensors() -> None:
    """They count no writes."""
    with torch.inference_mode():
        x = torch.tensor([-1.0, 2.0], dtype=torch.float64)
        mark_positive(x)
        assert not is_positive(x)
        assert size_of(x).tolist() == [1.0, 2.0]
        x[0] = -3.0
        assert size_of(x).tolist() == [3.0, 2.0]
        assert follow(torch.exp, torch.ones(3)).problem is None


@pytest.mark.parametrize("reference", [torch.rsqrt, torch.reciprocal, lambda x: 1.0 / x.relu()])
def test_a_pole_at_minus_zero_is_not_taken_for_positive(reference: Any) -> None:
    x = torch.tensor([-0.0, 0.0, 1.0, 4.0])
    (output,) = follow(lambda x: reference(x.square() * x.abs()) * 2.0, x).outputs
    assert bool((output.bound >= 0).all())
    assert bool((output.bound[2:] > 0).all())


def test_the_ends_of_several_tensors_are_found_together() -> None:
    """As on a device."""
    tensors = [torch.tensor([[3.0, -1.0]]), torch.tensor(2.0), torch.tensor([math.nan, 1.0])]
    low, high, *rest = find_ends_together([t.bfloat16() for t in tensors])
    assert (low, high, rest[:2]) == (-1.0, 3.0, [2.0, 2.0])
    assert all(map(math.isnan, rest[2:]))
