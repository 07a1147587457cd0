"""Shrinking: minimal in what matters, faithful in kind, bounded in runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpuemu.candidates import loader
from gpuemu.checking import make_campaign
from gpuemu.model.case import Case
from gpuemu.model.op import Dim, Op
from gpuemu.model.record import Minimal
from gpuemu.shrink import shrink

OP = Op(
    "twice",
    {"x": "R C"},
    {"R": Dim(1, 64), "C": Dim(1, 4096)},
    lambda x, k: x * k,
    params={"k": [2.0, 4.0]},
)
START = Case("twice", {"R": 5, "C": 300}, "float32", {"x": "strided"}, {"x": "negative"}, {"k": 4.0}, 1)


def minimal_of(kernel: Callable[..., Any], case: Case = START, op: Op = OP, **limits: Any) -> Minimal:
    campaign = make_campaign(op, loader.from_callable(kernel, name="kernel"), "cpu")
    return shrink(campaign, campaign.run_case(case), **limits)


def test_everything_shrinks_for_a_kernel_that_is_always_wrong() -> None:
    minimal = minimal_of(lambda x, k: x * k + 1)
    case = minimal.record.case
    assert dict(case.dims) == {"R": 1, "C": 1}
    assert case.is_contiguous
    assert dict(case.value_classes) == {"x": "uniform"}
    assert dict(case.params) == {"k": 2.0}
    assert minimal.original_case_id == START.id
    assert minimal.record.verdict.kind == "value"


@pytest.mark.parametrize("threshold", [2, 7, 65, 129, 257])
def test_the_threshold_of_a_size_bug_is_found_exactly(threshold: int) -> None:
    minimal = minimal_of(lambda x, k: x * k if x.shape[1] < threshold else x * k + 1)
    assert dict(minimal.record.case.dims) == {"R": 1, "C": threshold}


def test_a_layout_failure_keeps_its_layout() -> None:
    def kernel(x: torch.Tensor, k: float) -> torch.Tensor:
        return x * k if x.is_contiguous() else x * k + 1

    minimal = minimal_of(kernel)
    assert minimal.record.verdict.kind == "layout"
    assert dict(minimal.record.case.layouts) == {"x": "strided"}


def test_an_exception_keeps_its_type() -> None:
    def kernel(x: torch.Tensor, k: float) -> torch.Tensor:
        if x.shape[1] > 40:
            return x.view(7, 3)
        return x[:, :, None].squeeze(5)

    minimal = minimal_of(kernel)
    assert minimal.record.verdict.message.startswith("RuntimeError")
    assert minimal.record.case.dims["C"] == 41


def test_domains_and_constraints_are_respected() -> None:
    op = Op("even", {"x": "N"}, {"N": Dim(8, 512, multiple_of=8)}, lambda x: x, constraints=["N % 16 == 0"])
    case = Case("even", {"N": 480}, "float32", {"x": "contiguous"}, {"x": "bell"}, {}, 1)
    assert minimal_of(lambda x: x + 1, case, op).record.case.dims["N"] == 16
    listed = Op("listed", {"x": "N"}, {"N": [4, 32, 480]}, lambda x: x)
    kernel = minimal_of(lambda x: x + (x.shape[0] > 4), case.with_changes(op="listed"), listed)
    assert kernel.record.case.dims["N"] == 32


def test_the_number_of_runs_is_bounded() -> None:
    calls: list[int] = []

    def kernel(x: torch.Tensor, k: float) -> torch.Tensor:
        calls.append(1)
        return x * k + 1

    assert minimal_of(kernel, max_runs=3).runs == 3


def test_a_flaky_failure_that_never_repeats_stays_the_original() -> None:
    calls: list[int] = []

    def kernel(x: torch.Tensor, k: float) -> torch.Tensor:
        calls.append(1)
        return x * k + 1 if len(calls) == 1 else x * k

    assert minimal_of(kernel).record.case.id == START.id
