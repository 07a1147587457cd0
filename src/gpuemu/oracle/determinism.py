"""Calls on the same inputs that gave different bits (ORACLE.md section 7).

Where the contract promises the same bits, any difference fails. Elsewhere each call must be right on its own,
and calls may differ by twice the bound. Two values that are each acceptable differ by no more than that but for
their rounding to storage, since both are roundings of numbers within the bound of the expected one. What is
left to check is where the bound is 0: every order of every sum gives the same number there, so a difference
is a race or an uninitialised read, never a re-association.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from gpuemu.model.contract import Contract
from gpuemu.model.expected import Expected, ExpectedOutput
from gpuemu.model.observation import Observation
from gpuemu.model.verdict import Flag, Kind, Status, Verdict
from gpuemu.oracle.bounds import Acceptance, OutputAcceptance, comparable

Tensor = torch.Tensor
Outputs = Sequence[Tensor]
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
# The outputs of the first call were compared with what is expected, or would have been.
_JUDGED = (Status.PASS, Status.FAIL, Status.INCONCLUSIVE)
_OF_FORM = (Kind.SHAPE, Kind.DTYPE)


def judge(
    observation: Observation,
    verdict: Verdict,
    judge_call: Callable[[tuple[Tensor, ...]], Verdict],
    expected: Expected,
    acceptance: Acceptance,
    contract: Contract,
) -> Verdict:
    """The verdict on all calls of a case.

    Args:
        verdict: on the first call. judge_call: gives the verdict on the outputs of another one.
        expected, acceptance: of the first call; without outputs where the answer depends on the candidate's.
    """
    of_form = verdict.kind in _OF_FORM or (verdict.kind or "").startswith("guard:")
    if verdict.status not in _JUDGED or of_form:
        return verdict
    difference = _find(observation, [_differing_bits] * len(observation.outputs))
    if difference is None:
        return verdict
    if contract.deterministic:
        return _failing(verdict, f"{difference.describe()}; the contract promises the same bits")
    if verdict.status is Status.FAIL:
        return verdict
    for call, outputs in observation.repeats.items():
        again = judge_call(outputs)
        if again.status is Status.FAIL:
            return _failing(again, f"right in the first call, wrong in call {call}: {again.message}")
    exact = find_exact_difference(observation, expected, acceptance)
    if exact is not None:
        text = "these inputs give the same number there in every order of the sums, so this is no rounding"
        return _failing(verdict, f"{exact.describe()}; {text}")
    message = "; ".join(
        part for part in (verdict.message, f"{difference.describe()}, within the bound") if part
    )
    return replace(verdict, flags=(*verdict.flags, Flag.NONDETERMINISTIC), message=message)


def _failing(verdict: Verdict, message: str) -> Verdict:
    return replace(verdict, status=Status.FAIL, kind=Kind.NONDETERMINISTIC, message=message, hint="")


@dataclass(frozen=True)
class Difference:
    """Where a further call differs from the first.

    call: its number, 2 for the second. output, index: the first element that differs; first, again: its two
    values. count, elements: how many elements differ, of how many.
    """

    call: int
    output: int
    index: tuple[int, ...]
    first: float
    again: float
    count: int
    elements: int

    def describe(self) -> str:
        """One sentence."""
        where = f"output {self.output} at [{', '.join(map(str, self.index))}]"
        values = f"{self.first:.9g} in the first call and {self.again:.9g} in call {self.call}"
        return (
            f"{self.count} of {self.elements} elements differ between two calls on the same inputs: {where} is "
            f"{values}"
        )


def find_exact_difference(
    observation: Observation, expected: Expected, acceptance: Acceptance
) -> Difference | None:
    """The further call that differs from the first in the most elements with one right answer, if any does.

    NaN equals NaN; zeros of either sign are equal unless the sign is part of the answer.
    """
    if not acceptance.outputs:
        return None
    pairs = zip(expected.outputs, acceptance.outputs, strict=True)
    return _find(observation, [_ExactDifference(*pair, acceptance.contract.signed_zero) for pair in pairs])


def _differing_bits(a: Tensor, b: Tensor) -> Tensor:
    view = _BITS.get(a.element_size())
    if view is None:  # complex128
        return (a != b) & ~(a.isnan() & b.isnan())
    return a.contiguous().view(view) != b.contiguous().view(view)


class _ExactDifference:
    """Which exact elements of one output differ between two calls."""

    def __init__(self, output: ExpectedOutput, accepted: OutputAcceptance, signed_zero: bool) -> None:
        self.output, self.accepted, self.signed_zero = output, accepted, signed_zero

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        if self.accepted.selection is not None:  # of equal scores any may be chosen, each time another
            return torch.zeros_like(a, dtype=torch.bool)
        value, bound, masks = self.output.value, self.output.bound, self.accepted.masks
        if masks is not None:
            value, bound = masks.resolve(value, bound, self.accepted.rounded)
        exact = bound == 0
        if value.is_floating_point():
            exact &= value.isfinite()
        a, b = comparable(a), comparable(b)
        different = (a != b) & ~(a.isnan() & b.isnan())
        if self.signed_zero and a.is_floating_point():
            different |= (a == 0) & (b == 0) & (a.signbit() != b.signbit())
        return exact & different


def _find(observation: Observation, tests: Sequence[Callable[[Tensor, Tensor], Tensor]]) -> Difference | None:
    """The further call that differs in the most elements by a test per output."""
    worst: Difference | None = None
    outputs = observation.outputs
    elements = sum(output.numel() for output in outputs)
    for call, again in observation.repeats.items():
        masks = [test(a, b) for test, a, b in zip(tests, outputs, again, strict=True)]
        counts = [int(mask.sum()) for mask in masks]
        if sum(counts) > (worst.count if worst is not None else 0):
            number = next(position for position, count in enumerate(counts) if count)
            flat = int(masks[number].reshape(-1).to(torch.uint8).argmax())
            index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), outputs[number].shape))
            first, second = (float(tensors[number].reshape(-1)[flat]) for tensors in (outputs, again))
            worst = Difference(call, number, index, first, second, sum(counts), elements)
    return worst
