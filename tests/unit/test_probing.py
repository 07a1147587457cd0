"""Kernels that remember, recognise or pretend, and the right ones that they must not be taken for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gpuemu.candidates import loader
from gpuemu.checking import make_campaign
from gpuemu.model.op import Dim, Op
from gpuemu.model.record import Record
from gpuemu.planning.plan import make_plan

DOUBLED = Op("doubled", {"x": "N"}, {"N": Dim(4, 60)}, lambda x: x * 2, dtypes=["float32"])
LARGEST = Op("largest", {"x": "N"}, {"N": Dim(4, 60)}, lambda x: x.amax(), dtypes=["float32"])
Kernel = Callable[..., Any]


def run(kernel: Kernel, op: Op = DOUBLED, budget: int = 12, **options: Any) -> list[Record]:
    plan = make_plan(op, budget=budget, seed=0)
    return list(make_campaign(op, loader.from_callable(kernel, name="kernel"), "cpu", **options).run(plan))


def kinds(records: list[Record]) -> set[str | None]:
    return {record.verdict.kind for record in records}


def cached(key: Callable[[torch.Tensor], object]) -> Kernel:
    held: dict[object, torch.Tensor] = {}

    def kernel(x: torch.Tensor) -> torch.Tensor:
        return held.setdefault(key(x), x * 2).clone()

    return kernel


def test_a_cache_by_address_and_shape_is_found() -> None:
    found = run(cached(lambda x: (x.data_ptr(), x.shape, x.stride())), guards=("repeat", "stale"))
    assert kinds(found) & {"guard:stale", "value"}
    one = run(cached(lambda x: x.shape), budget=1, guards=("repeat", "stale"))
    assert kinds(one) == {"guard:stale"}


def test_a_cache_by_some_elements_is_found_by_the_others() -> None:
    found = run(cached(lambda x: (x.shape, float(x[0]), float(x[len(x) // 4]))), guards=("repeat", "stale"))
    assert kinds(found) == {None, "guard:stale"}


def test_an_answer_that_other_values_do_not_change_is_right() -> None:
    assert kinds(run(lambda x: x.amax(), LARGEST)) == {None}


def test_a_right_kernel_is_not_suspected() -> None:
    assert kinds(run(lambda x: x * 2, budget=40)) == {None}


def test_a_kernel_that_goes_wrong_later_is_called_again_with_earlier_cases() -> None:
    calls: list[int] = []

    def kernel(x: torch.Tensor) -> torch.Tensor:
        calls.append(len(x))
        return x * 2 if len(calls) < 40 or calls[-1] != calls[0] else x * 3

    campaign = make_campaign(DOUBLED, loader.from_callable(kernel, name="kernel"), "cpu")
    campaign.settings = type(campaign.settings)(guards=("repeat", "recall"))
    records = list(campaign.run(make_plan(DOUBLED, budget=60, seed=0)))
    assert kinds(records) & {"guard:recall", "value", "nondeterministic"}
