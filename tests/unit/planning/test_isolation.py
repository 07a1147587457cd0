"""Dense hard values: one input at a time, in turn, along short lines; nothing else changes."""

from __future__ import annotations

from collections import Counter

import pytest

from gpuemu.model.case import Case, Plan
from gpuemu.model.op import Dim, Op, Tensor
from gpuemu.model.value_class import DEFAULT_VALUE_CLASSES, DENSE_VALUE_CLASSES, VALUE_CLASSES
from gpuemu.planning.isolation import EVERYWHERE, ROWS
from gpuemu.planning.limits import LIMITS, batch_dims, fits
from gpuemu.planning.plan import make_plan

ATTENTION = Op(
    "attention",
    {"q": "M D", "k": "N D", "v": "N D"},
    {"M": Dim(1, 1024), "N": Dim(1, 4096), "D": Dim(1, 256)},
    lambda q, k, v: q,
)
SOFTMAX = Op("softmax", {"x": "B S H"}, {"B": Dim(1, 64), "S": Dim(1, 4096), "H": Dim(1, 16384)}, lambda x: x)
HARD = ("adversarial", "nan_injected")


def plan_of(op: Op, value_class: str, budget: int = 16, seed: int = 0) -> Plan:
    return make_plan(op, budget=budget, seed=seed, value_classes=[value_class], block_sizes=(16, 32))


def hard_inputs(case: Case) -> list[str]:
    return [name for name, values in case.value_classes.items() if VALUE_CLASSES[values].dense]


@pytest.mark.parametrize("value_class", DENSE_VALUE_CLASSES)
@pytest.mark.parametrize("seed", range(4))
def test_one_input_is_hard_in_turn_and_all_in_one_case_of_eight(value_class: str, seed: int) -> None:
    cases = plan_of(ATTENTION, value_class, seed=seed).cases
    for place, case in enumerate(cases, start=1):
        assert len(hard_inputs(case)) == (3 if place % EVERYWHERE == 0 else 1)
        assert set(case.value_classes.values()) <= {value_class, "bell", "uniform"}
    alone = [hard_inputs(case)[0] for case in cases if len(hard_inputs(case)) == 1]
    assert set(alone[:3]) == {"q", "k", "v"}
    assert max(Counter(alone).values()) - min(Counter(alone).values()) <= 1


@pytest.mark.parametrize("value_class", HARD)
@pytest.mark.parametrize("seed", range(4))
def test_every_dim_of_every_hard_input_is_short_within_eight_cases(value_class: str, seed: int) -> None:
    longest = VALUE_CLASSES[value_class].clean_length
    assert longest is not None
    cases = plan_of(ATTENTION, value_class, budget=8, seed=seed).cases[:-1]
    short = {
        (hard_inputs(case)[0], dim) for case in cases for dim in "MND" if 1 < case.dims[dim] <= longest
    }  # fmt: skip
    assert short >= {("q", "D"), ("k", "D"), ("v", "D"), ("q", "M"), ("k", "N"), ("v", "N")}
    assert any(hard_inputs(case) == ["q"] and case.dims["N"] >= 48 for case in cases)


@pytest.mark.parametrize("value_class", HARD)
def test_of_an_only_input_half_the_cases_have_several_short_rows(value_class: str) -> None:
    longest = VALUE_CLASSES[value_class].clean_length
    assert longest is not None
    cases = plan_of(SOFTMAX, value_class, budget=8).cases
    assert all(set(case.value_classes.values()) == {value_class} for case in cases)
    short = [case for case in cases if 1 < case.dims["H"] <= longest]
    assert len(short) >= 4
    several = [ROWS // 2 <= case.dims["B"] * case.dims["S"] <= ROWS for case in short]
    assert sum(several) >= len(several) - 1


@pytest.mark.parametrize("seed", range(4))
def test_where_no_line_is_clean_there_are_many_of_them(seed: int) -> None:
    op = Op(
        "matmul",
        {"a": "M K", "b": "K N"},
        {"M": Dim(1, 4096), "K": Dim(1, 4096), "N": Dim(1, 4096)},
        lambda a, b: a @ b,
    )
    cases = make_plan(op, budget=8, seed=seed, value_classes=["adversarial"], block_sizes=(32, 64)).cases
    for hard, counting in (("a", "M"), ("b", "N")):
        edge = [case.dims for case in cases if hard_inputs(case) == [hard] and 32 < case.dims["K"] <= 40]
        assert any(dims[counting] >= 128 for dims in edge)


def test_an_input_without_axes_is_hard_in_its_turn() -> None:
    op = Op("scale", {"x": "N", "s": ""}, {"N": Dim(1, 64)}, lambda x, s: x * s)
    assert {tuple(hard_inputs(case)) for case in plan_of(op, "adversarial", budget=7).cases} == {("x",), ("s",)}


def test_how_long_a_line_may_be_follows_from_the_share_of_nonfinite_values() -> None:
    assert VALUE_CLASSES["adversarial"].clean_length == 6  # 0.8^6 = 0.26
    assert VALUE_CLASSES["nan_injected"].clean_length == 36  # 0.9625^36 = 0.25
    assert VALUE_CLASSES["sparse_adversarial"].clean_length is None
    assert VALUE_CLASSES["bell"].clean_length is None


def test_thinned_plans_are_deterministic_and_stay_admissible() -> None:
    op = Op(
        "grouped",
        {"q": "Hq D", "k": "Hkv D"},
        {"Hq": Dim(1, 32), "Hkv": Dim(1, 32), "D": Dim(8, 64, multiple_of=8)},
        lambda q, k: q,
        constraints=["Hq % Hkv == 0"],
    )
    plan = plan_of(op, "adversarial", budget=40)
    assert plan == plan_of(op, "adversarial", budget=40)
    assert plan.cases[:8] == plan_of(op, "adversarial", budget=8).cases
    for case in plan.cases:
        assert op.admits(case.dims)
        assert fits(op, case.dims, LIMITS["cpu"], batch_dims(op))


def test_an_input_that_admits_no_plain_class_stays_as_drawn() -> None:
    only = Tensor("N", value_classes=("adversarial",))
    op = Op("sum", {"x": "N", "y": only}, {"N": Dim(1, 64)}, lambda x, y: x)
    for case in plan_of(op, "adversarial", budget=6).cases:
        assert case.value_classes["y"] == "adversarial"


def test_plans_without_dense_classes_are_left_alone() -> None:
    default = make_plan(ATTENTION, budget=16, seed=1)
    assert default == make_plan(ATTENTION, budget=16, seed=1, value_classes=DEFAULT_VALUE_CLASSES)
    assert not any(hard_inputs(case) for case in default.cases)
