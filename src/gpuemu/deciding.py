"""Ops whose answer depends on what the candidate returned: random decisions, and residuals (ORACLE.md 2.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from gpuemu.model.case import Case
from gpuemu.model.expected import Expected, ExpectedOutput
from gpuemu.model.observation import Observation
from gpuemu.model.op import Op
from gpuemu.model.verdict import Kind, Status
from gpuemu.oracle import compare, recovered
from gpuemu.reference import evaluate

if TYPE_CHECKING:
    from gpuemu.campaign import Campaign


def awaits_outputs(op: Op) -> bool:
    """Whether nothing can be expected before the candidate has answered."""
    return op.residual is not None or bool(op.recovered)


def outline(op: Op, case: Case, device: str, profile: str) -> Expected:
    """The shapes and dtypes that are due, without values: single zeros spread over each shape."""
    outputs = []
    for number, shape in enumerate(op.output_shapes(case.dims)):
        declared = op.output_dtypes[number] if number < len(op.output_dtypes) else None
        zero = torch.zeros((), dtype=torch.float64, device=device).expand(shape)
        outputs.append(ExpectedOutput(zero, zero, declared or case.dtype))
    return Expected(tuple(outputs), profile)


def expect(
    campaign: Campaign, case: Case, observation: Observation, profile: str, unit_roundoff: float | None = None
) -> Expected:
    """What the reference expects of a kernel that decided as this one did; or the outline, with the rejection,
    where its outputs are wrong before any value is compared."""
    op, inputs = campaign.op, campaign.prepare(case).inputs
    plain = outline(op, case, campaign.settings.device, profile)
    if op.residual is not None or compare.judge_form(observation, plain) is not None:
        return plain
    decisions, objection = recovered.read(op, case, inputs, observation.outputs)
    if objection:
        return replace(plain, rejection=(Kind.VALUE, objection))
    return evaluate.evaluate(
        op, case, inputs, profile, unit_roundoff, campaign.settings.rigorous, decisions=decisions
    )


def rejected(
    campaign: Campaign, case: Case, observation: Observation, profile: str, names: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Which trivial predictors a case rejects when they answer in the candidate's place, and which are exempt.

    A predictor is exempt where it has no answer, or the candidate's own.
    """
    refused, exempt = [], []
    inputs = list(campaign.prepare(case).inputs.values())
    for name in names:
        answers = [_predict(name, inputs, output) for output in observation.outputs]
        if all(answer is None for answer in answers):
            exempt.append(name)
            continue
        pairs = zip(answers, observation.outputs, strict=True)
        outputs = tuple(output if answer is None else answer for answer, output in pairs)
        trial = Observation(outputs)
        if campaign.judge(case, trial, campaign.expect(case, profile, trial)).status is Status.FAIL:
            refused.append(name)
    return tuple(refused), tuple(exempt)


def _predict(name: str, inputs: Sequence[torch.Tensor], output: torch.Tensor) -> torch.Tensor | None:
    """A predictor's answer in place of one output; None where it has none, or that output itself."""
    if not output.numel():
        return None
    answer: torch.Tensor | None = None
    wide = output.double().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    if name == "zeros":
        answer = torch.zeros_like(output)
    elif name == "input":
        same = [x for x in inputs if x.is_floating_point() and x.shape == output.shape]
        answer = same[0].to(output.dtype).clone() if same else None
    elif name == "mean" and output.dim() and output.shape[-1] > 1:
        answer = wide.mean(-1, keepdim=True).expand(output.shape).to(output.dtype).clone()
    elif name == "constant" and output.numel() > 1:
        answer = wide.reshape(-1)[0].expand(output.shape).to(output.dtype).clone()
    if answer is None or (name != "zeros" and torch.equal(answer.double(), output.double())):
        return None
    return answer
