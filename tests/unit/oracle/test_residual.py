"""Residuals of a candidate's own outputs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gpuemu.deciding import outline
from gpuemu.errors import OpDefinitionError
from gpuemu.model.case import Case
from gpuemu.model.observation import CandidateException, GuardFinding, Observation
from gpuemu.model.op import Op
from gpuemu.model.verdict import Flag, Kind, Status, Verdict
from gpuemu.oracle import residual

CASE = Case("root", {"N": 3}, "float32", {"x": "contiguous"}, {"x": "uniform"}, {}, 0)
X = torch.tensor([1.0, 4.0, 9.0])


def root_residual(inputs: Any, outputs: Any, _params: Any) -> torch.Tensor:
    assert inputs["x"].dtype == outputs[0].dtype == torch.float64
    return (outputs[0] ** 2 - inputs["x"]).abs() / (2.0**-23 * inputs["x"])


def op_with(function: Any, **options: Any) -> Op:
    return Op("root", {"x": "N"}, {"N": [3]}, residual=function, outputs=["N"], **options)


def judge(output: Any, function: Any = root_residual, x: torch.Tensor = X, **options: Any) -> Verdict:
    op = op_with(function, **options)
    observation = output if isinstance(output, Observation) else Observation((output,))
    return residual.judge(op, CASE, observation, {"x": x}, outline(op, CASE, "cpu", "P0"))


def test_small_residuals_pass_with_their_largest_ratio() -> None:
    verdict = judge(torch.sqrt(X))
    assert verdict.status is Status.PASS
    assert verdict.errors is not None
    assert (verdict.errors.elements, verdict.errors.max_bound_units) == (3, 0.0)
    near = judge(torch.sqrt(X) * (1 + 2.0**-19))  # a ratio of about 2 * 2^-19 / 2^-23 = 32
    assert (near.status, near.kind) == (Status.FAIL, Kind.VALUE)
    assert "residual 0 is 32" in near.message
    assert judge(torch.sqrt(X) * (1 + 2.0**-19), residual_limit=100.0).status is Status.PASS
    assert Flag.SUSPICIOUS in judge(torch.sqrt(X) * (1 + 2.0**-20)).flags


def test_nan_exceeds_every_limit() -> None:
    verdict = judge(torch.tensor([1.0, float("nan"), 3.0]))
    assert (verdict.status, verdict.kind) == (Status.FAIL, Kind.VALUE)
    assert "1 of 3 residuals exceed 30: residual 1 is nan" in verdict.message


@pytest.mark.parametrize(
    ("output", "kind"),
    [(torch.ones(4), Kind.SHAPE), (torch.ones(3, dtype=torch.float16), Kind.DTYPE)],
)
def test_the_form_is_judged_first(output: torch.Tensor, kind: Kind) -> None:
    assert judge(output).kind == kind


def test_exceptions_and_guards_are_reported_as_ever() -> None:
    raised = Observation(exception=CandidateException("ValueError", "no"))
    assert judge(raised).status is Status.ERROR
    guarded = Observation((torch.sqrt(X),), findings=(GuardFinding("mutation", "input x was written"),))
    assert judge(guarded).kind == "guard:mutation"


def test_named_and_single_ratios_are_understood() -> None:
    named = judge(torch.sqrt(X), lambda *_: {"first": 1.0, "second": [torch.tensor(99.0), 2]})
    assert "second 0 is 99" in named.message or "residual 0 is 99" in named.message
    assert judge(torch.sqrt(X), lambda *_: 3).status is Status.PASS


def test_what_is_no_ratio_makes_the_case_invalid() -> None:
    assert judge(torch.sqrt(X), lambda *_: "small").status is Status.INVALID
    assert "ZeroDivisionError" in judge(torch.sqrt(X), lambda *_: 1 / 0).message
    assert judge(torch.sqrt(X), lambda *_: []).status is Status.INCONCLUSIVE


def test_inputs_that_are_not_finite_establish_nothing() -> None:
    assert judge(torch.sqrt(X), x=torch.tensor([1.0, float("nan"), 9.0])).status is Status.INCONCLUSIVE


def test_an_op_that_is_judged_by_its_outputs_must_say_their_shapes() -> None:
    with pytest.raises(OpDefinitionError, match="declare their shapes"):
        Op("root", {"x": "N"}, {"N": [3]}, residual=root_residual)
    with pytest.raises(OpDefinitionError, match="names \\['M'\\]"):
        Op("root", {"x": "N"}, {"N": [3]}, residual=root_residual, outputs=["M"])
