"""Asking a kernel again for what its answers must have to do with each other (ORACLE.md section 5).

Two uses. A second opinion: where a plain case passes, the relations of its op are tried with both answers'
bounds, and a violated one fails the case although the reference agrees with it. And alone, where no reference
can be afforded: then only claims stand that need no bound, and a case on which none can be judged is
inconclusive. Which cases are related follows from the case alone, so that a replay relates the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from gpuemu.model.case import Case
from gpuemu.model.observation import Observation
from gpuemu.model.relation import RelationResult, RelationStatus
from gpuemu.model.verdict import Kind, Status, Verdict
from gpuemu.oracle.metamorphic import Answer, Ask, Inputs, Relation, answer_slack, judge_relation
from gpuemu.oracle.relations import relations_of
from gpuemu.reference import evaluate
from gpuemu.run.observing import Observer

if TYPE_CHECKING:
    from gpuemu.campaign import Campaign

PLAIN_VALUES = ("uniform", "bell")
RELATION_PREFIX = "relation:"
Predictor = Callable[[Inputs, Sequence[torch.Tensor]], tuple[torch.Tensor, ...]]


class RefusedError(Exception):
    """The kernel gave no usable answer to inputs of another shape; the relation is then not judged."""


def is_related(case: Case) -> bool:
    """Whether a case is plain enough: contiguous, one well-behaved value class for all inputs."""
    classes = set(case.value_classes.values())
    return case.is_contiguous and len(classes) == 1 and classes <= set(PLAIN_VALUES)


def relate(campaign: Campaign, case: Case, verdict: Verdict) -> Verdict:
    """The verdict of a passing case after the relations of its op: a violated one makes it a failure."""
    relations = relations_of(campaign.op)
    if not relations or not is_related(case) or verdict.status is not Status.PASS:
        return verdict
    inputs = campaign.prepare(case).inputs
    ask = make_ask(campaign, case, campaign.profile_of(case))
    return _conclude(verdict, [_judge_one(relation, ask, inputs, case.params) for relation in relations])


def judge_alone(campaign: Campaign, case: Case, observation: Observation) -> Verdict:
    """The verdict of a case by relations only: nothing is evaluated in float64."""
    if observation.crash is not None:
        return Verdict(Status.ERROR, observation.crash.kind, observation.crash.message)
    if observation.exception is not None:
        exception = observation.exception
        status = Status.UNSUPPORTED if exception.refused else Status.ERROR
        return Verdict(status, message=f"{exception.type}: {exception.message}")
    if observation.malformed is not None:
        return Verdict(Status.FAIL, Kind.SHAPE, observation.malformed)
    if observation.findings:
        finding = observation.findings[0]
        return Verdict(Status.FAIL, f"guard:{finding.guard}", finding.message)
    inputs = campaign.prepare(case).inputs
    relations = relations_of(campaign.op)
    ask = make_ask(campaign, case, None)
    results = [_judge_one(relation, ask, inputs, case.params) for relation in relations]
    verdict = _conclude(Verdict(Status.PASS), results)
    if verdict.status is Status.PASS and not verdict.relations:
        what = "no relation is known for this op" if not relations else "no relation can be judged on this case"
        return Verdict(Status.INCONCLUSIVE, message=f"without a reference: {what}")
    rejected = [name for name, predict in PREDICTORS.items() if _refutes(relations, predict, ask, inputs, case)]
    return replace(verdict, rejected_predictors=tuple(rejected))


def _conclude(verdict: Verdict, results: Sequence[RelationResult]) -> Verdict:
    held = tuple(result.name for result in results if result.status is RelationStatus.HOLDS)
    violated = [result for result in results if result.status is RelationStatus.VIOLATED]
    if not violated:
        return replace(verdict, relations=held)
    worst = max(violated, key=lambda result: result.score)
    others = ", ".join(result.name for result in violated if result is not worst)
    message = worst.message + (f" (also violated: {others})" if others else "")
    kind = f"{RELATION_PREFIX}{worst.name}"
    return replace(verdict, status=Status.FAIL, kind=kind, message=message, relations=held)


def _judge_one(relation: Relation, ask: Ask, inputs: Inputs, params: Mapping[str, object]) -> RelationResult:
    try:
        return judge_relation(relation, ask, inputs, params)
    except RefusedError as refusal:
        return RelationResult(relation.name, RelationStatus.NOT_JUDGED, f"the kernel refused: {refusal}")


def make_ask(campaign: Campaign, case: Case, profile: str | None) -> Ask:
    """Calls the candidate on other inputs; profile None leaves the answers without bounds."""
    op, settings = campaign.op, campaign.settings

    def ask(inputs: Inputs) -> Answer:
        observation = Observer(campaign.caller, inputs, case.params, op.contract).observe(calls=1)
        if not observation.outputs:
            raise RefusedError(observation.malformed or str(observation.exception or observation.crash))
        if profile is None:
            return Answer(observation.outputs)
        expected = evaluate.evaluate(op, case, inputs, profile, rigorous=settings.rigorous)
        shapes = [output.value.shape for output in expected.outputs]
        if expected.problem is not None or shapes != [output.shape for output in observation.outputs]:
            raise RefusedError(expected.problem or "outputs of another shape")
        bounds = [output.bound * settings.constants.get(case.dtype, 1.0) for output in expected.outputs]
        return Answer(observation.outputs, answer_slack(observation.outputs, bounds))

    return ask


def _zeros(inputs: Inputs, outputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    del inputs
    return tuple(torch.zeros_like(output) for output in outputs)


def _input(inputs: Inputs, outputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """The first input of each output's shape, else zeros."""
    return tuple(
        next((x.to(y.dtype) for x in inputs.values() if x.shape == y.shape), torch.zeros_like(y))
        for y in outputs
    )


def _mean(inputs: Inputs, outputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    del inputs
    return tuple(
        y.double().mean(-1, keepdim=True).expand(y.shape).to(y.dtype) if y.dim() and y.numel() else y
        for y in outputs
    )


def _constant(inputs: Inputs, outputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    del inputs
    return tuple(y.reshape(-1)[:1].expand(y.numel()).reshape(y.shape) if y.numel() else y for y in outputs)


PREDICTORS: dict[str, Predictor] = {"zeros": _zeros, "input": _input, "mean": _mean, "constant": _constant}


def _refutes(relations: Sequence[Relation], predict: Predictor, ask: Ask, inputs: Inputs, case: Case) -> bool:
    """Whether some relation would convict a kernel that answers as a trivial predictor does."""

    def ask_predictor(asked: Inputs) -> Answer:
        return Answer(predict(asked, ask(asked).outputs))

    return any(
        _judge_one(relation, ask_predictor, inputs, case.params).status is RelationStatus.VIOLATED
        for relation in relations
    )
