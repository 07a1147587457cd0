"""The population: controls are right, mutants are wrong, on a small plan of each op."""

from __future__ import annotations

from functools import cache

import pytest

from gpuemu.campaign import Shared
from gpuemu.candidates import loader
from gpuemu.checking import make_campaign
from gpuemu.corpus.catalogue import BUG_CLASSES
from gpuemu.corpus.population import Implementation, load_population
from gpuemu.model.case import Plan
from gpuemu.model.verdict import Status
from gpuemu.ops.registry import get_op
from gpuemu.planning.plan import make_plan

CASES = 24
DTYPES = ("float32", "float16", "bfloat16")
# Dtypes in which a mutant cannot be told from a correct kernel, and why.
INVISIBLE = {
    ("layernorm", "one_pass", "bfloat16"): "the cancellation stays below half an ulp of the output",
    ("matmul", "tf32_operands", "float16"): "float16 has tf32's 10 fractional bits: nothing is cut off",
    ("matmul", "tf32_operands", "bfloat16"): "bfloat16 has fewer bits than tf32",
    ("matmul", "bfloat16_operands", "bfloat16"): "the operands are stored in bfloat16",
    ("rope", "bfloat16_table", "bfloat16"): "the tables are stored in bfloat16",
}
RUNNING_HERE = [i for i in load_population() if "cpu" in i.devices and i.kind == "torch"]


@cache
def plan_and_shared(op: str, dtype: str) -> tuple[Plan, Shared]:
    return make_plan(get_op(op), budget=CASES, seed=11, dtypes=[dtype]), Shared()


def fails(implementation: Implementation, dtype: str) -> bool:
    op = get_op(implementation.op)
    plan, shared = plan_and_shared(op.name, dtype)
    candidate = loader.from_callable(implementation.function, name=implementation.name)
    campaign = make_campaign(op, candidate, "cpu", implementation.profiles.get(dtype))
    campaign.shared = shared
    verdicts = (campaign.run_case(case).verdict for case in plan.cases)
    return any(v.status in (Status.FAIL, Status.ERROR, Status.INVALID) for v in verdicts)


def names(role: str) -> list[tuple[Implementation, str]]:
    return [
        (i, dtype) for i in RUNNING_HERE if i.role == role for dtype in DTYPES if dtype in get_op(i.op).dtypes
    ]


def identify(value: object) -> str | None:
    return f"{value.op}-{value.name}" if isinstance(value, Implementation) else None


@pytest.mark.slow
@pytest.mark.parametrize(("implementation", "dtype"), names("control"), ids=identify)
def test_controls_pass(implementation: Implementation, dtype: str) -> None:
    if implementation.runs_on("cpu", dtype):
        assert not fails(implementation, dtype)


@pytest.mark.slow
@pytest.mark.parametrize(("implementation", "dtype"), names("mutant"), ids=identify)
def test_mutants_fail_unless_the_dtype_hides_them(implementation: Implementation, dtype: str) -> None:
    hidden = (implementation.op, implementation.name, dtype) in INVISIBLE
    assert fails(implementation, dtype) is not hidden


def test_every_name_is_used_once_and_every_op_has_controls_and_mutants() -> None:
    population = load_population()
    assert len({(i.op, i.name) for i in population}) == len(population)
    for op in {i.op for i in population}:
        roles = [i.role for i in load_population(op)]
        assert roles.count("control") >= 2, op
        assert roles.count("mutant") >= 1, op


def test_mutants_say_what_is_wrong_with_them_and_looser_profiles_why() -> None:
    for implementation in load_population():
        assert bool(implementation.bug) is (implementation.role == "mutant")
        assert bool(implementation.reason) is bool(implementation.profiles)
        if implementation.role == "mutant":
            assert implementation.bug_class in BUG_CLASSES


def test_one_control_and_one_mutant_of_an_op_in_the_fast_tier() -> None:
    by_name = {i.name: i for i in load_population("softmax")}
    assert not fails(by_name["online"], "float16")
    assert fails(by_name["no_rescale"], "float16")
