"""Cells of studies: their text, their seeds, their order, their plans."""

from __future__ import annotations

import pytest

from gpuemu.corpus.population import load_population
from gpuemu.model.value_class import VALUE_CLASSES
from gpuemu.ops.registry import get_op
from gpuemu.planning.limits import DEVICE_LIMITS, LIMITS, many_case_limits
from gpuemu.studies.cells import CASES_PER_CELL, Cell, interleave, make_candidate, value_classes

CELL = Cell("softmax", "float16", "bell", 3)


def test_an_item_names_its_cell() -> None:
    assert CELL.item == "softmax/float16/bell/3"
    assert Cell.parse(CELL.item) == CELL
    assert CELL.op_and_dtype == "softmax float16"


@pytest.mark.parametrize("text", ["softmax/float16/bell", "softmax/float16/bell/3/4", "softmax/float16/bell/x"])
def test_other_text_is_no_item(text: str) -> None:
    with pytest.raises(ValueError, match=r"unpack|invalid literal"):
        Cell.parse(text)


def test_seeds_stay_what_recorded_studies_used() -> None:
    assert CELL.seed(0) == 17618510912718128377
    assert CELL.seed(1) == 17276018578866637066
    assert CELL.seed(0, prefix="p2/") == 17068561761094510291


def test_neighbours_are_of_different_groups_and_none_is_lost() -> None:
    long, short = [Cell("a", "d", "v", n) for n in range(3)], [Cell("b", "d", "v", 0)]
    assert list(interleave([long, [], short])) == [long[0], short[0], long[1], long[2]]


def test_value_classes_are_those_that_some_input_takes() -> None:
    assert value_classes(get_op("softmax")) == tuple(VALUE_CLASSES)
    assert value_classes(get_op("matmul_fp8")) == ("uniform",)  # its inputs are of a fixed 8-bit dtype


def test_a_plan_stays_within_its_cell() -> None:
    plan = CELL.plan("cpu", 0, layouts=["contiguous"])
    assert len(plan.cases) == CASES_PER_CELL
    assert plan.cases == CELL.plan("cpu", 0, layouts=["contiguous"]).cases
    assert plan.cases != CELL.plan("cpu", 1, layouts=["contiguous"]).cases
    for case in plan.cases:
        assert (case.op, case.dtype, case.value_classes) == ("softmax", "float16", {"x": "bell"})
        assert case.is_contiguous


def test_cases_are_small_where_there_are_many() -> None:
    assert many_case_limits("cpu") == LIMITS["cpu"]
    assert many_case_limits("cuda:1") == DEVICE_LIMITS
    assert DEVICE_LIMITS.elements < LIMITS["cuda"].elements


def test_an_implementation_becomes_a_candidate_of_its_name() -> None:
    control = next(i for i in load_population("relu") if i.name == "where")
    candidate = make_candidate(control, "cpu")
    assert candidate.name == "where"
    assert candidate.call is control.function
