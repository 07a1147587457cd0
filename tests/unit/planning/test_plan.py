"""Plans: deterministic, within limits, crossing every pair of axes."""

from __future__ import annotations

from itertools import combinations

import pytest

from gpuemu.errors import UsageError
from gpuemu.model.contract import DEFAULT_LAYOUTS
from gpuemu.model.op import Contract, Dim, Op, Tensor
from gpuemu.model.value_class import DEFAULT_VALUE_CLASSES
from gpuemu.planning.limits import LIMITS, batch_dims
from gpuemu.planning.plan import make_plan


def make_op(**changes: object) -> Op:
    arguments: dict[str, object] = {
        "name": "norm",
        "inputs": {"x": "B S H", "w": "H"},
        "dims": {"B": Dim(1, 64), "S": Dim(1, 4096), "H": Dim(1, 16384)},
        "params": {"eps": [1e-6, 1e-5]},
        "reference": lambda x, w, eps: x,
    }
    return Op(**{**arguments, **changes})  # type: ignore[arg-type]


MATMUL = make_op(
    name="matmul",
    inputs={"a": "M K", "b": "K N"},
    dims={"M": Dim(1, 4096), "K": Dim(1, 4096), "N": Dim(1, 4096)},
    params={},
)


GOLDEN = ["95657e3605b5cf37", "c92a91fc4410e89f", "7d55b60880b4649f"]


def test_same_arguments_same_plan_and_other_seed_other_plan() -> None:
    assert make_plan(make_op(), budget=20, seed=7) == make_plan(make_op(), budget=20, seed=7)
    assert make_plan(make_op(), budget=20, seed=7).digest != make_plan(make_op(), budget=20, seed=8).digest


def test_a_golden_plan_stays_the_same_on_every_machine() -> None:
    plan = make_plan(MATMUL, budget=3, seed=0)
    assert [case.id for case in plan.cases] == GOLDEN


def test_a_larger_budget_only_appends() -> None:
    short, long = make_plan(make_op(), budget=5, seed=1), make_plan(make_op(), budget=25, seed=1)
    assert long.cases[:5] == short.cases


def test_the_first_cases_are_the_plain_anchors() -> None:
    for case, values in zip(make_plan(make_op(), budget=2, seed=3).cases, ("uniform", "bell"), strict=True):
        assert case.is_contiguous
        assert set(case.value_classes.values()) == {values}
        assert case.dims["H"] & (case.dims["H"] - 1)  # not a power of two
        assert case.dims["B"] * case.dims["S"] <= LIMITS["cpu"].batch


def test_anchors_take_the_awkward_ones_of_listed_sizes_and_stay_within_limits() -> None:
    op = make_op(dims={"B": [1, 2, 8], "S": [1, 7, 128], "H": [1, 3, 256, 1025]})
    first = make_plan(op, budget=1, seed=0).cases[0]
    assert dict(first.dims) == {"B": 1, "S": 7, "H": 1025}
    on_device = make_plan(op, budget=1, seed=0, device="cuda").cases[0]
    assert dict(on_device.dims) == {"B": 2, "S": 7, "H": 1025}
    powers = make_op(inputs={"x": "H"}, dims={"H": [1, 3, 64, 16]}, params={})
    assert make_plan(powers, budget=1, seed=0).cases[0].dims["H"] == 64


def test_eight_cases_already_cross_the_axes() -> None:
    cases = make_plan(make_op(), budget=8, seed=0).cases
    assert len({case.dtype for case in cases}) == 3
    assert len({case.layouts["x"] for case in cases}) >= 3
    assert len({case.value_classes["x"] for case in cases}) >= 5
    assert len({case.params["eps"] for case in cases}) == 2
    assert len({case.dims["H"] for case in cases}) >= 6


def test_pairs_of_levels_are_covered_far_better_than_at_random() -> None:
    cases = make_plan(make_op(), budget=64, seed=0).cases
    rows = [{"dtype": c.dtype, "layout": c.layouts["x"], "values": c.value_classes["x"]} for c in cases]
    levels = {"dtype": 3, "layout": len(DEFAULT_LAYOUTS), "values": len(DEFAULT_VALUE_CLASSES)}
    for a, b in combinations(levels, 2):
        seen = {(row[a], row[b]) for row in rows}
        assert len(seen) >= 0.8 * levels[a] * levels[b], (a, b)  # drawn at random: two thirds


def test_batch_dims_are_read_off_the_shapes() -> None:
    assert batch_dims(make_op()) == {"B", "S"}
    assert batch_dims(MATMUL) == frozenset()
    declared = make_op(inputs={"x": "N"}, dims={"N": Dim(1, 9, batch=True)}, reference=lambda x: x, params={})
    assert batch_dims(declared) == {"N"}


@pytest.mark.parametrize("op", [make_op(), MATMUL], ids=lambda op: op.name)
def test_cpu_limits_hold(op: Op) -> None:
    limits = LIMITS["cpu"]
    plan = make_plan(op, budget=64, seed=2)
    assert plan.notes
    for case in plan.cases:
        batch = 1
        for name in batch_dims(op):
            batch *= case.dims[name]
        assert batch <= limits.batch
        for name in op.inputs:
            count = 1
            for size in op.shape_of(name, case.dims):
                count *= size
            assert count <= limits.elements


def test_the_device_tier_uses_larger_sizes_and_says_nothing() -> None:
    plan = make_plan(make_op(), budget=64, seed=2, device="cuda")
    assert not plan.notes
    assert max(case.dims["S"] for case in plan.cases) > 64


def test_constraints_hold() -> None:
    op = make_op(
        inputs={"q": "Hq D", "k": "Hkv D"},
        dims={"Hq": Dim(1, 32), "Hkv": Dim(1, 32), "D": Dim(8, 64, multiple_of=8)},
        constraints=["Hq % Hkv == 0"],
        params={},
    )
    cases = make_plan(op, budget=40, seed=0).cases
    assert all(case.dims["Hq"] % case.dims["Hkv"] == 0 for case in cases)
    assert any(case.dims["Hq"] != case.dims["Hkv"] for case in cases)


def test_fixed_dtype_inputs_have_no_value_class_of_their_own() -> None:
    op = make_op(
        inputs={"x": "H", "i": Tensor("H", dtype="int64", low=0, high="H")}, dims={"H": Dim(1, 9)}, params={}
    )
    cases = make_plan(op, budget=16, seed=0).cases
    assert {case.value_classes["i"] for case in cases} == {"uniform"}


def test_restrictions_are_honoured_and_contract_layouts_are_the_default() -> None:
    op = make_op(contract=Contract(layouts=("contiguous",)))
    assert all(case.is_contiguous for case in make_plan(op, budget=10, seed=0).cases)
    plan = make_plan(
        make_op(), budget=10, seed=0, dtypes=["float16"], layouts=["strided"], value_classes=["bell"]
    )
    assert {case.dtype for case in plan.cases} == {"float16"}
    assert {layout for case in plan.cases for layout in case.layouts.values()} == {"strided"}


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"budget": 0}, "budget"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**64}, "seed"),
        ({"strategy": "x"}, "covering"),
        ({"dtypes": ["float99"]}, "float99"),
        ({"layouts": ["diagonal"]}, "diagonal"),
        ({"value_classes": ["odd"]}, "odd"),
        ({"value_classes": ["bel", "bell"]}, "value class bel: did you mean bell\\? op 'norm' has uniform"),
        ({"dtypes": []}, "empty"),
    ],
)
def test_wrong_arguments_are_refused_by_name(changes: dict[str, object], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        make_plan(make_op(), **{"budget": 4, "seed": 0, **changes})  # type: ignore[arg-type]


def test_contradictory_constraints_are_refused() -> None:
    with pytest.raises(UsageError, match="constraints"):
        make_plan(make_op(constraints=["B > 64"]), budget=4, seed=0)
