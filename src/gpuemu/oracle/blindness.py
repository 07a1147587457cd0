"""The blindness self-test: does the oracle reject what it must, and accept what it must? (ORACLE.md 12.4)

16-bit rounding intervals dwarf the bound, so an oracle can be blind without raising an alarm. For elements of
an expected output it is asked about stored values whose fate follows from the definition: one at least 4 (delta
+ half an ulp) away, the outermost ones whose rounding interval meets r +- delta/2, and zero. Those values are
found by exact rational arithmetic on the dtype's definition; nothing of `bounds` takes part.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import torch

from gpuemu.dtypes import DType
from gpuemu.model.expected import Expected, ExpectedOutput
from gpuemu.oracle.bounds import Acceptance, OutputAcceptance

Tensor = torch.Tensor
PROBED = 48  # elements per output: the first and last, the largest and smallest, and evenly spread ones
FAR, NEAR, ZERO = 4, Fraction(1, 2), 2


@dataclass(frozen=True)
class Blindness:
    """What the self-test of one case found.

    probes: how many (element, value) pairs were tried; failures: the wrong answers in words. visible: the
    relative error delta + half an ulp over |r| of each element probed, for a median.
    """

    probes: int
    failures: tuple[str, ...]
    visible: tuple[float, ...]


@dataclass(frozen=True)
class _Probe:
    """A stored value in place of one element, and what the oracle must say."""

    index: int
    value: float
    accepted: bool
    what: str


def examine(expected: Expected, acceptance: Acceptance) -> Blindness:
    """Probe every float and integer output of a case; selections have a test of their own."""
    probes = 0
    failures: list[str] = []
    visible: list[float] = []
    for number, (output, accepted) in enumerate(zip(expected.outputs, acceptance.outputs, strict=True)):
        if accepted.selection is not None or not accepted.elements:
            continue
        wanted = list(_probes(output, accepted.dtype, _judged(output, accepted), visible))
        probes += len(wanted)
        failures += [f"output {number}: {text}" for text in _wrong_answers(wanted, accepted)]
    return Blindness(probes, tuple(failures), tuple(visible))


def _judged(output: ExpectedOutput, accepted: OutputAcceptance) -> Sequence[int]:
    """Row-major indices of the elements to probe: finite, with a finite bound, settled by no mask."""
    value = output.value.double().reshape(-1)
    fit = value.isfinite() & output.bound.reshape(-1).isfinite()
    if accepted.masks is not None:
        for mask in vars(accepted.masks).values():
            if isinstance(mask, torch.Tensor):
                fit &= ~(mask.reshape(-1) != 0)
    places = fit.nonzero().reshape(-1)
    if len(places) <= PROBED:
        return [int(i) for i in places]
    size = value[places].abs()
    chosen = {0, len(places) - 1, int(size.argmax()), int(size.argmin())}
    chosen |= {i * len(places) // (PROBED - 4) for i in range(PROBED - 4)}
    return [int(places[i]) for i in sorted(chosen)]


def _probes(
    output: ExpectedOutput, dtype: DType, indices: Sequence[int], visible: list[float]
) -> Iterator[_Probe]:
    values, bounds = output.value.double().reshape(-1), output.bound.reshape(-1)
    for index in indices:
        value, bound = Fraction(float(values[index])), Fraction(float(bounds[index]))
        if dtype.is_float:
            if value:
                visible.append(float((bound + quantum(value, dtype) / 2) / abs(value)))
            yield from _float_probes(index, value, bound, dtype)
        elif dtype.kind != "bool":
            yield from _integer_probes(index, value, bound, dtype)


def quantum(value: Fraction, dtype: DType) -> Fraction:
    """The spacing of stored values at |value|: 2^(e - p + 1), e the exponent of its binade, at least emin."""
    exponent = dtype.emin
    if value:
        magnitude = abs(value)
        exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
        if Fraction(2) ** exponent > magnitude:
            exponent -= 1
        exponent = max(exponent, dtype.emin)
    return Fraction(2) ** (exponent - dtype.precision + 1)


def stored_from(value: Fraction, dtype: DType, up: bool) -> Fraction | None:
    """The stored number nearest to a value on one side of it, or itself; None beyond the largest."""
    step = quantum(value, dtype)
    count = math.ceil(value / step) if up else math.floor(value / step)
    result = count * step
    return None if abs(result) > Fraction(dtype.max) else result


def _float_probes(index: int, value: Fraction, bound: Fraction, dtype: DType) -> Iterator[_Probe]:
    half = quantum(value, dtype) / 2
    for sign in (1, -1):
        far = stored_from(value + sign * FAR * (bound + half), dtype, up=sign > 0)
        if far is not None:
            yield _Probe(index, float(far), False, "a value 4 (delta + half an ulp) away")
        near = _outermost(value + sign * NEAR * bound, dtype, sign)
        if near is not None:
            yield _Probe(index, float(near), True, "the outermost value whose interval meets r +- delta/2")
    if abs(value) > ZERO * (bound + Fraction(dtype.smallest_subnormal) / 2):
        yield _Probe(index, 0.0, False, "zero")


def _outermost(end: Fraction, dtype: DType, sign: int) -> Fraction | None:
    """The stored number furthest out (by sign) whose closed rounding interval holds a value."""
    inner = stored_from(end, dtype, up=sign < 0)
    if inner is None or abs(inner) >= Fraction(dtype.max):
        return None
    outer = stored_from(end, dtype, up=sign > 0)
    if outer is None or outer == inner:
        return inner
    return outer if abs(end - inner) >= abs(outer - end) else inner


def _integer_probes(index: int, value: Fraction, bound: Fraction, dtype: DType) -> Iterator[_Probe]:
    if value.denominator != 1:
        return
    for sign in (1, -1):
        far = value + sign * math.ceil(FAR * (bound + Fraction(1, 2)))
        if -Fraction(dtype.max) <= far <= Fraction(dtype.max) and not (dtype.kind == "uint" and far < 0):
            yield _Probe(index, float(far), False, "an integer 4 (delta + 1/2) away")
    yield _Probe(index, float(value), True, "the expected integer")


def _wrong_answers(probes: Sequence[_Probe], accepted: OutputAcceptance) -> list[str]:
    """Ask about all probes, as many elements at a time as have one each."""
    wrong: list[str] = []
    remaining = list(probes)
    while remaining:
        batch = list({probe.index: probe for probe in reversed(remaining)}.values())
        remaining = [probe for probe in remaining if probe not in batch]
        trial = accepted.rounded.clone().contiguous()
        flat = trial.view(-1)
        values = torch.tensor([probe.value for probe in batch], dtype=torch.float64, device=flat.device)
        flat[[probe.index for probe in batch]] = values.to(flat.dtype)
        answers = accepted.contains(trial).reshape(-1)
        for probe in batch:
            if bool(answers[probe.index]) is not probe.accepted:
                said = "rejected" if probe.accepted else "accepted"
                wrong.append(f"element {probe.index}: {probe.what}, {probe.value!r}, is {said}")
    return wrong
