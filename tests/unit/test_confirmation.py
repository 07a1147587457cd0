"""What a failure is called: layout only where the layout makes the difference, precision only of roundings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from gpuemu.candidates import loader
from gpuemu.checking import make_campaign
from gpuemu.model.case import Case
from gpuemu.model.op import Dim, Op
from gpuemu.model.verdict import Status, Verdict

SUM = Op("row_sum", {"x": "R K"}, {"R": Dim(1, 64), "K": Dim(1, 9999)}, lambda x: x.sum(-1))
SOFTMAX = Op("softmax", {"x": "R C"}, {"R": Dim(1, 64), "C": Dim(1, 512)}, lambda x: torch.softmax(x, -1))


def verdict_of(kernel: Callable[..., Any], op: Op, dtype: str, layout: str, seed: int, **dims: int) -> Verdict:
    case = Case(op.name, dims, dtype, {"x": layout}, {"x": "uniform"}, {}, seed)
    return make_campaign(op, loader.from_callable(kernel, name="kernel"), "cpu").run_case(case).verdict


def test_another_order_of_an_inaccurate_sum_is_no_matter_of_the_layout() -> None:
    def kernel(x: torch.Tensor) -> torch.Tensor:
        if x.is_contiguous():
            return x.sum(-1) + 0.9 * bound  # within the bound, barely
        return x.sum(-1) + 1.2 * bound  # just outside

    bound = torch.tensor(0.0)
    values = make_campaign(SUM, loader.from_callable(kernel, name="kernel"), "cpu")
    case = Case("row_sum", {"R": 3, "K": 300}, "float32", {"x": "strided"}, {"x": "uniform"}, {}, 5)
    bound = values.expect(case).expected.outputs[0].bound.float()
    found = verdict_of(kernel, SUM, "float32", "strided", 5, R=3, K=300)
    assert (found.status, found.kind) == (Status.FAIL, "value")
    assert found.errors is not None
    assert 1 < found.errors.max_bound_units < 2
    assert verdict_of(kernel, SUM, "float32", "contiguous", 5, R=3, K=300).status is Status.PASS


def test_a_path_for_strided_inputs_that_only_rounds_is_not_called_layout_near_the_bound() -> None:
    """The contiguous path is right with a wide margin, the strided one off by 3 bounds; integers are right."""

    def kernel(x: torch.Tensor) -> torch.Tensor:
        total = x.sum(-1)
        noisy = total + torch.where(total == total.round(), 0.0, 3.0) * bound
        return total if x.is_contiguous() else noisy

    bound = torch.tensor(0.0)
    campaign = make_campaign(SUM, loader.from_callable(kernel, name="kernel"), "cpu")
    case = Case("row_sum", {"R": 3, "K": 300}, "float32", {"x": "strided"}, {"x": "uniform"}, {}, 5)
    bound = campaign.expect(case).expected.outputs[0].bound.float()
    found = campaign.run_case(case).verdict
    assert (found.status, found.kind) == (Status.FAIL, "value")


@pytest.mark.parametrize("value_class", ["uniform", "small_integers", "offset"])
def test_a_kernel_that_ignores_strides_is_called_layout(value_class: str) -> None:
    def kernel(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.as_strided(x.shape, (x.shape[1], 1)), -1)

    case = Case("softmax", {"R": 8, "C": 33}, "float32", {"x": "transposed"}, {"x": value_class}, {}, 5)
    found = make_campaign(SOFTMAX, loader.from_callable(kernel, name="kernel"), "cpu").run_case(case).verdict
    assert (found.status, found.kind) == (Status.FAIL, "layout")


def test_misplaced_elements_that_hardly_differ_are_called_layout_by_their_integers() -> None:
    """Columns around 100 differ so little in a mean that the misplacement stays within a few bounds."""
    op = Op("mean", {"x": "R K"}, {"R": Dim(1, 64), "K": Dim(1, 4096)}, lambda x: x.mean(-1))

    def kernel(x: torch.Tensor) -> torch.Tensor:
        exact = x.double().mean(-1)
        flat = x.as_strided(x.shape, (x.shape[1], 1)).double().mean(-1)
        # The misplaced mean, brought to three bounds of the right one unless the inputs are integers.
        near = exact + (flat - exact).sign() * 3 * bound
        return (flat if bool((x == x.round()).all()) else near if not x.is_contiguous() else exact).float()

    bound = torch.tensor(0.0, dtype=torch.float64)
    campaign = make_campaign(op, loader.from_callable(kernel, name="kernel"), "cpu")
    case = Case("mean", {"R": 4, "K": 64}, "float32", {"x": "transposed"}, {"x": "offset"}, {}, 5)
    bound = campaign.expect(case).expected.outputs[0].bound
    found = campaign.run_case(case).verdict
    assert (found.status, found.kind) == (Status.FAIL, "layout")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("factor", [1.01, 0.97, 2.0, -1.0])
def test_a_factor_on_every_element_is_never_a_matter_of_precision(factor: float, seed: int) -> None:
    def kernel(x: torch.Tensor) -> torch.Tensor:
        return (torch.softmax(x.float(), -1) * factor).to(x.dtype)

    found = verdict_of(kernel, SOFTMAX, "float16", "contiguous", seed, R=1 + 4 * (seed % 2), C=50 + seed)
    assert (found.status, found.kind, found.looser_profile) == (Status.FAIL, "value", None)
    assert "x the expected value" in found.hint or "sign flipped" in found.hint


def test_rows_off_by_a_number_of_their_own_are_still_a_matter_of_precision() -> None:
    def kernel(x: torch.Tensor) -> torch.Tensor:
        e = (x - x.amax(-1, keepdim=True)).exp()
        total = torch.zeros(x.shape[0], 1, dtype=x.dtype)
        for column in e.split(1, dim=-1):
            total = total + column  # in the storage dtype
        return e / total

    case = Case("softmax", {"R": 6, "C": 300}, "float16", {"x": "contiguous"}, {"x": "bell"}, {}, 2)
    found = make_campaign(SOFTMAX, loader.from_callable(kernel, name="kernel"), "cpu").run_case(case).verdict
    assert (found.status, found.kind, found.looser_profile) == (Status.FAIL, "precision", "P2")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_float16_accumulator_that_runs_backwards_on_strided_inputs_is_no_matter_of_the_layout(
    dtype: str,
) -> None:
    """In 16-bit storage an order shows its error by chance; a margin in bounds alone blamed 18 of 104 on it."""

    def kernel(x: torch.Tensor) -> torch.Tensor:
        terms = x.double().numpy().T[:: 1 if x.is_contiguous() else -1]
        total = np.zeros(x.shape[0], np.float16)
        for term in terms:
            total = (total.astype(np.float64) + term).astype(np.float16)
        return torch.from_numpy(total.astype(np.float64)).to(x.dtype)

    kinds = {
        verdict_of(kernel, SUM, dtype, "strided", seed, R=rows, K=size).kind
        for rows in (2, 3)
        for size in (16, 64)
        for seed in range(6)
    }
    assert kinds <= {None, "value", "precision"}
    assert kinds - {None}
