"""The hard value classes: shares, magnitudes, and bytes that never change."""

from __future__ import annotations

import hashlib

import pytest
import torch

from gpuemu.dtypes import get_dtype
from gpuemu.inputs.adversarial import ADVERSARIAL_GENERATORS
from gpuemu.inputs.fill import make_inputs
from gpuemu.model.case import Case
from gpuemu.model.op import Dim, Op

OP = Op("sample", {"x": "R N"}, {"R": Dim(0, 999), "N": Dim(0, 99)}, reference=lambda x: x)
DTYPES = ("float32", "float16", "bfloat16")


def make(
    value_class: str, dtype: str = "float32", rows: int = 400, width: int = 50, seed: int = 3
) -> torch.Tensor:
    place = {"x": "contiguous"}
    return make_inputs(OP, Case("sample", {"R": rows, "N": width}, dtype, place, {"x": value_class}, {}, seed))[
        "x"
    ]


def near(share: float, expected: float, count: int) -> bool:
    """Within four standard deviations of a binomial share."""
    return abs(share - expected) <= 4.0 * (expected * (1.0 - expected) / count) ** 0.5


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_injected_as_published(dtype: str) -> None:
    x = make("nan_injected", dtype)
    for special in (x.isnan(), x == torch.inf, x == -torch.inf, x == 0):
        assert near(float(special.double().mean()), 0.0125, x.numel())
    finite = x[x.isfinite()].double()
    assert float(finite.abs().max()) <= 10.0
    assert abs(float(finite.mean())) < 0.2


@pytest.mark.parametrize("dtype", DTYPES)
def test_adversarial_as_published(dtype: str) -> None:
    x, limits = make("adversarial", dtype).double(), get_dtype(dtype)
    nonfinite = (~x.isfinite()).double().mean()
    assert near(float(nonfinite), 0.2, x.numel())
    finite = x[x.isfinite()].abs()
    tiny = (finite > 0) & (finite <= 2.0 * limits.smallest_normal)
    huge = finite > 1e3
    for part in ((x == 0), tiny, huge):
        assert 0.15 < float(part.double().sum()) / x.numel() < 0.22
    assert float(finite.max()) <= limits.max / 10.0
    assert bool(((finite > 0) & (finite < limits.smallest_normal)).any())  # subnormal


@pytest.mark.parametrize("dtype", DTYPES)
def test_sparse_rows_have_one_magnitude_and_at_most_one_special_value(dtype: str) -> None:
    x, limits = make("sparse_adversarial", dtype).double(), get_dtype(dtype)
    specials = (~x.isfinite()).sum(1)
    assert int(specials.max()) == 1
    assert near(float((specials == 1).double().mean()), 0.25, x.shape[0])
    largest = torch.where(x.isfinite(), x, 0.0).abs().amax(1)
    bounds = [0.0, limits.smallest_normal, 10.0, 1e3, limits.max / 10.0]
    seen = {min(i for i, bound in enumerate(bounds) if float(value) <= bound) for value in largest}
    assert seen == set(range(5))


@pytest.mark.parametrize("value_class", ADVERSARIAL_GENERATORS)
@pytest.mark.parametrize(("rows", "width"), [(0, 5), (3, 0), (1, 1)])
def test_small_and_empty_shapes(value_class: str, rows: int, width: int) -> None:
    assert make(value_class, rows=rows, width=width).shape == (rows, width)


GOLDEN = {
    ("nan_injected", "float32"): "e7d74cc419366e8f",
    ("nan_injected", "float16"): "d8055d82d26fdb9e",
    ("nan_injected", "bfloat16"): "cf6dff60132998b6",
    ("adversarial", "float32"): "08ab01f90be367d6",
    ("adversarial", "float16"): "b6fe3ace154e9c6f",
    ("adversarial", "bfloat16"): "49162d8b71c963d1",
    ("sparse_adversarial", "float32"): "75b3d9a729cddb8c",
    ("sparse_adversarial", "float16"): "142ce67ac8e272e1",
    ("sparse_adversarial", "bfloat16"): "f7e5790be8d4e8de",
}


@pytest.mark.parametrize("key", GOLDEN, ids="-".join)
def test_the_bytes_never_change(key: tuple[str, str]) -> None:
    assert digest(*key) == GOLDEN[key]


def digest(value_class: str, dtype: str) -> str:
    bits = make(value_class, dtype, rows=700, width=31, seed=9).view(torch.uint8)
    return hashlib.sha256(bits.numpy().tobytes()).hexdigest()[:16]
