"""The judge: from what happened and what was expected to a verdict (ORACLE.md sections 3, 8 and 12)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from gpuemu.model.expected import Expected, ExpectedOutput
from gpuemu.model.observation import CandidateException, GuardFinding, Observation
from gpuemu.model.op import Contract
from gpuemu.model.verdict import ErrorDistribution, Flag, Kind, Status, Verdict, WorstElement
from gpuemu.oracle.bounds import Acceptance, OutputAcceptance, accept, coarsen
from gpuemu.oracle.distance import Measurement, measure
from gpuemu.oracle.hints import hint
from gpuemu.oracle.selection import at_choices
from gpuemu.oracle.selection_text import explain
from gpuemu.oracle.structure import structural_problem

SUSPICIOUS_SCORE = 0.5  # section 6; healthy kernels stay far below
MINIMUM_JUDGED = 0.25  # section 8: with fewer elements judged, a case establishes nothing


def judge(
    observation: Observation,
    expected: Expected,
    acceptance: Acceptance,
    contract: Contract,
    inputs: Mapping[str, torch.Tensor] | None = None,
) -> Verdict:
    """Decide about one case. Pure: reads its arguments, changes none.

    The first of these that applies decides: the reference failed (invalid); the candidate raised (unsupported
    or error); its outputs are malformed or differ in number, dtype, shape or device (fail); a guard fired
    (fail); the values.

    Args:
        acceptance: of `expected`, as `bounds.accept` gives it.
        inputs: only for the hint "the output is this input".
    """
    verdict = judge_form(observation, expected)
    if verdict is not None:
        return verdict
    verdict = _verdict_of_values(observation.outputs, expected, acceptance, contract, inputs)
    if verdict.status is Status.FAIL and observation.unfilled_loads and not verdict.hint:
        places = ", ".join(observation.unfilled_loads[:3])
        verdict = replace(
            verdict, hint=f"masked lanes are loaded without `other` at {places}: undefined on a GPU"
        )
    if verdict.status is Status.FAIL and observation.notes:
        return replace(verdict, message="; ".join((*observation.notes, verdict.message)))
    return verdict


def judge_form(observation: Observation, expected: Expected) -> Verdict | None:
    """What can be said before any value is looked at; None where the values must decide."""
    if expected.problem is not None:
        return Verdict(Status.INVALID, message=expected.problem, profile=expected.profile)
    if observation.crash is not None:
        crash = observation.crash
        return Verdict(Status.ERROR, crash.kind, crash.message, profile=expected.profile)
    if observation.exception is not None:
        return _verdict_of_exception(observation.exception, expected)
    if observation.malformed is not None:
        return fail(expected, Kind.SHAPE, observation.malformed)
    problem = structural_problem(observation.outputs, expected.outputs)
    if problem is not None:
        return fail(expected, *problem)
    if observation.findings:
        return _verdict_of_findings(observation.findings, expected)
    return None if expected.rejection is None else fail(expected, *expected.rejection)


def fail(expected: Expected, kind: str, message: str, **details: Any) -> Verdict:
    """A failing verdict under the profile of `expected`."""
    return Verdict(Status.FAIL, kind, message, profile=expected.profile, generic=expected.generic, **details)


def _verdict_of_exception(exception: CandidateException, expected: Expected) -> Verdict:
    where = f" at {exception.location}" if exception.location else ""
    status = Status.UNSUPPORTED if exception.refused else Status.ERROR
    message = f"{exception.type}: {exception.message}{where}"
    return Verdict(status, message=message, profile=expected.profile)


def _verdict_of_findings(findings: tuple[GuardFinding, ...], expected: Expected) -> Verdict:
    others = ", ".join(dict.fromkeys(finding.guard for finding in findings[1:]))
    message = findings[0].message + (f" (also: {others})" if others else "")
    return fail(expected, f"guard:{findings[0].guard}", message)


def _verdict_of_values(
    outputs: tuple[torch.Tensor, ...],
    expected: Expected,
    acceptance: Acceptance,
    contract: Contract,
    inputs: Mapping[str, torch.Tensor] | None,
) -> Verdict:
    outputs = tuple(actual.detach() if actual.requires_grad else actual for actual in outputs)
    is_excused = bool(expected.generic) and not _is_gross(outputs, expected, contract)
    pairs, parts = _measure_all(outputs, expected, acceptance, contract)
    number = max(range(len(parts)), key=lambda position: parts[position].score, default=0)
    errors = _distribution(parts, acceptance)
    worst = _worst_element(parts[number], number, outputs[number].shape) if parts else None
    if errors.exceeding and not is_excused:
        nonfinite = sum(part.nonfinite for part in parts) == errors.exceeding
        kind = Kind.NONFINITE if nonfinite else Kind.VALUE
        chosen = _explain_choice(worst, outputs, pairs)
        pattern = "; ".join(part for part in (chosen, hint(outputs[number], *pairs[number], inputs)) if part)
        flags = (Flag.GENERIC_BOUND,) if expected.generic else ()
        message = _failure_message(errors, worst, chosen)
        return fail(expected, kind, message, worst=worst, errors=errors, hint=pattern, flags=flags)
    swallowed = sum(part.swallowed for part in parts) if contract.nan == "report" else 0
    return _passing_verdict(expected, errors, worst, swallowed)


Pair = tuple[ExpectedOutput, OutputAcceptance]


def _measure_all(
    outputs: tuple[torch.Tensor, ...], expected: Expected, acceptance: Acceptance, contract: Contract
) -> tuple[list[Pair], list[Measurement]]:
    """Every output beside what it is held against; selected scores must also suit the candidate's own indices.

    Where no order is due (an unsorted top-k), they must suit those alone.
    """
    pairs: list[Pair] = list(zip(expected.outputs, acceptance.outputs, strict=True))
    further: list[tuple[int, int, Measurement]] = []
    for number, output in enumerate(expected.outputs):
        selection = output.selection
        if selection is None or selection.values is None or not output.value.numel():
            continue
        due = at_choices(outputs[number], expected.outputs[selection.values], selection)
        accepted = accept(replace(expected, outputs=(due,)), contract).outputs[0]
        if selection.ordered:
            part = measure(outputs[selection.values], due, accepted)
            further.append((number, selection.values, part))
        else:
            pairs[selection.values] = due, accepted
    parts = [measure(actual, *pair) for actual, pair in zip(outputs, pairs, strict=True)]
    for number, values, part in further:
        if part.exceeding and not parts[number].exceeding + parts[values].exceeding:
            parts[values] = part
    return pairs, parts


def _is_gross(outputs: tuple[torch.Tensor, ...], expected: Expected, contract: Contract) -> bool:
    """Whether outputs are wrong beyond what a generic bound leaves open."""
    coarse = coarsen(expected)
    _, parts = _measure_all(outputs, coarse, accept(coarse, contract), contract)
    return any(part.exceeding for part in parts)


def _passing_verdict(
    expected: Expected, errors: ErrorDistribution, worst: WorstElement | None, swallowed: int
) -> Verdict:
    flags, remarks = [], []
    if errors.exceeding:  # only with a generic bound, which convicts nobody on its own (section 12.8)
        flags.append(Flag.SUSPICIOUS)
        remarks.append(_failure_message(errors, worst) + "; that bound is generic, so this is no failure")
    elif errors.max_bound_units > SUSPICIOUS_SCORE:
        flags.append(Flag.SUSPICIOUS)
        remarks.append(f"the largest error is {errors.max_bound_units:.2f} of its bound")
    if swallowed:
        flags.append(Flag.NAN_SEMANTICS)
        count = f"{swallowed} of {errors.elements} elements"
        remarks.append(f"{count} should be NaN, since an input NaN reaches them")
    if expected.generic:
        flags.append(Flag.GENERIC_BOUND)
    status = Status.PASS
    if errors.judged < MINIMUM_JUDGED * errors.elements:
        status = Status.INCONCLUSIVE
        remarks.insert(0, f"only {errors.judged} of {errors.elements} elements can be judged")
    return Verdict(
        status,
        message="; ".join(remarks),
        profile=expected.profile,
        worst=worst,
        errors=errors,
        flags=tuple(flags),
        generic=expected.generic,
    )


def _distribution(parts: list[Measurement], acceptance: Acceptance) -> ErrorDistribution:
    return ErrorDistribution(
        elements=sum(accepted.elements for accepted in acceptance.outputs),
        judged=sum(accepted.judged for accepted in acceptance.outputs),
        exceeding=sum(part.exceeding for part in parts),
        max_bound_units=max((part.score for part in parts), default=0.0),
        max_absolute=max((part.max_absolute for part in parts), default=0.0),
        max_ulp=max((part.max_ulp for part in parts), default=0.0),
    )


def _worst_element(part: Measurement, output: int, shape: torch.Size) -> WorstElement | None:
    """The element with the largest score; None where every element is as good as can be."""
    if part.index < 0:
        return None
    index, rest = [], part.index
    for size in reversed(shape):
        rest, position = divmod(rest, size)
        index.append(position)
    return WorstElement(
        output=output,
        index=tuple(reversed(index)),
        actual=part.actual,
        expected=part.expected,
        bound=part.bound,
        error_bound_units=part.score,
        error_ulp=part.error_ulp,
    )


def _explain_choice(
    worst: WorstElement | None, outputs: tuple[torch.Tensor, ...], pairs: Sequence[Pair]
) -> str:
    """What a wrong selected index selects; "" for an output of another sort."""
    selection = None if worst is None else pairs[worst.output][1].selection
    if worst is None or selection is None:
        return ""
    actual = outputs[worst.output]
    strides = [math.prod(actual.shape[axis + 1 :]) for axis in range(actual.dim())]
    return explain(actual, selection, sum(i * s for i, s in zip(worst.index, strides, strict=True)))


def _failure_message(errors: ErrorDistribution, worst: WorstElement | None, chosen: str = "") -> str:
    count = f"{errors.exceeding} of {errors.judged} elements are outside their bound"
    if worst is None:
        return count
    where = f"[{', '.join(map(str, worst.index))}]"
    if chosen:
        return f"{count}; output {worst.output} at {where}: {chosen}"
    return (
        f"{count}; output {worst.output} at {where} is {worst.actual:.9g}, expected {worst.expected:.9g} "
        f"(error {worst.error_bound_units:.3g} bounds, {worst.error_ulp:.3g} ulp)"
    )
