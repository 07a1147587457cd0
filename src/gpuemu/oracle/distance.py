"""How far an output is from what is accepted, in units of the bound, absolutely and in ulp."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from gpuemu.dtypes import DType
from gpuemu.model.contract import NanPolicy
from gpuemu.model.expected import ExpectedOutput, Selection
from gpuemu.oracle.bounds import CHUNK_ELEMENTS, OutputAcceptance, comparable
from gpuemu.oracle.nonfinite import Masks, allow, settle, swallowed
from gpuemu.oracle.selection import assess

_EXPONENT_MASK = 0x7FF0000000000000
_JUST_ABOVE_ONE = math.nextafter(1.0, 2.0)


@dataclass(frozen=True)
class Measurement:
    """Errors of one output (or a part of it).

    exceeding: judged elements outside their interval; nonfinite: those of them where the actual or the expected
    stored value is NaN or infinite; nan: those where one of them is NaN, so that no bound matters.
    swallowed: elements that should be NaN and are not.
    score: largest residual over bound, where the residual is the distance from the expected value to the reals
    that round to the actual one (ORACLE.md section 2.3); 0 where the actual value is correctly rounded; inf
    where a bound of 0 is exceeded or NaN stands where a number is due. At most 1 exactly when nothing exceeds.
    max_absolute, max_ulp: largest |actual - expected| over elements that are not correctly rounded.
    index: row-major position of the element with the largest score; the last five fields describe it.
    """

    exceeding: int = 0
    nonfinite: int = 0
    nan: int = 0
    swallowed: int = 0
    score: float = 0.0
    max_absolute: float = 0.0
    max_ulp: float = 0.0
    index: int = -1
    actual: float = 0.0
    expected: float = 0.0
    bound: float = 0.0
    error_ulp: float = 0.0


CORRECTLY_ROUNDED = Measurement()


def measure(actual: torch.Tensor, output: ExpectedOutput, acceptance: OutputAcceptance) -> Measurement:
    """Measure one output.

    Args:
        actual: what the candidate returned; shape and dtype must be those of `output`.
        acceptance: of `output`, under the contract that the candidate is held to.
    """
    total, nan = acceptance.elements, acceptance.nan
    if total == 0:
        return CORRECTLY_ROUNDED
    if acceptance.selection is not None:
        return _measure_indices(actual, output, acceptance.selection, nan)
    tensors = (actual, output.value, output.bound, acceptance.lower, acceptance.upper, acceptance.rounded)
    if total <= CHUNK_ELEMENTS or actual.is_cuda:
        return _measure_part(tensors, acceptance.masks, acceptance.dtype, nan)
    flat = [tensor.reshape(-1) for tensor in tensors]
    parts = []
    for start in range(0, total, CHUNK_ELEMENTS):
        chunk = slice(start, min(start + CHUNK_ELEMENTS, total))
        masks = None if acceptance.masks is None else acceptance.masks.part(chunk)
        part = _measure_part([tensor[chunk] for tensor in flat], masks, acceptance.dtype, nan)
        parts.append(replace(part, index=part.index + start) if part.index >= 0 else part)
    return _combine(parts)


def _measure_indices(
    actual: torch.Tensor, output: ExpectedOutput, selection: Selection, nan: NanPolicy
) -> Measurement:
    """Selected indices: the score is how far a better element's score exceeds the chosen one, in bounds."""
    found = assess(actual, selection, nan)
    scores = found.score
    exceeding, worst = int((~found.inside).sum()), int(scores.argmax())
    largest = float(scores.reshape(-1)[worst])
    if largest == 0:
        return Measurement(swallowed=found.swallowed)
    position = int(selection.positions.reshape(-1)[worst])
    shown = actual.reshape(-1)[position], output.value.reshape(-1)[position], found.allowed.reshape(-1)[worst]
    index, expected, bound = (float(number) for number in shown)
    return Measurement(
        exceeding=exceeding,
        swallowed=found.swallowed,
        score=largest,
        max_absolute=float(found.distance.abs().nan_to_num(nan=0.0, posinf=torch.inf).max()),
        index=position,
        actual=index,
        expected=expected,
        bound=bound,
    )


def _combine(parts: Sequence[Measurement]) -> Measurement:
    worst = max(parts, key=lambda part: part.score)  # the first of equals
    return replace(
        worst,
        exceeding=sum(part.exceeding for part in parts),
        nonfinite=sum(part.nonfinite for part in parts),
        nan=sum(part.nan for part in parts),
        swallowed=sum(part.swallowed for part in parts),
        max_absolute=max(part.max_absolute for part in parts),
        max_ulp=max(part.max_ulp for part in parts),
    )


def _measure_part(
    tensors: Sequence[torch.Tensor], masks: Masks | None, dtype: DType, nan: NanPolicy
) -> Measurement:
    actual, value, bound, lower, upper, rounded = tensors
    actual = comparable(actual)
    if torch.equal(actual, rounded) and (masks is None or masks.signs is None):
        return CORRECTLY_ROUNDED  # so there is no NaN, and every residual is 0
    measure_distances = _float_distances if dtype.is_float else _integer_distances
    # The common case in two passes; NaN equals nothing, so it never gets through.
    if masks is None and dtype.is_float and torch.equal(actual.clamp(lower, upper), actual):
        error, residual, error_ulp = measure_distances(actual, value, rounded, dtype)
        score = (residual / bound).nan_to_num_(nan=0.0, posinf=torch.inf)  # 0 / 0: no residual, no score
        part = _describe(score, error, error_ulp, (actual, value, bound))
        return replace(part, score=1.0) if part.score > 1 else part  # float64 rounding at the very limit
    if masks is not None:
        actual = settle(actual, rounded, masks, dtype.max)
        value, bound = masks.resolve(value, bound, rounded)
    inside = (actual >= lower) & (actual <= upper)  # false for NaN
    if masks is not None:
        inside = allow(inside, actual, rounded, masks, nan)
    error, residual, error_ulp = measure_distances(actual, value, rounded, dtype)
    ratio = residual / bound
    passing = ratio.nan_to_num(nan=0.0).clamp(max=1.0) if dtype.is_float else torch.zeros_like(ratio)
    failing = ratio.nan_to_num(nan=torch.inf, posinf=torch.inf).clamp(min=_JUST_ABOVE_ONE)
    score = torch.where(inside, passing, failing)
    error, error_ulp = (_only_judged(column, inside, masks) for column in (error, error_ulp))
    part = _describe(score, error, error_ulp, (actual, value, bound))
    exceeding, nonfinite, with_nan = _count_exceeding(inside, actual, rounded)
    missing = swallowed(actual, masks) if masks is not None else 0
    return replace(part, exceeding=exceeding, nonfinite=nonfinite, nan=with_nan, swallowed=missing)


def _describe(
    score: torch.Tensor, error: torch.Tensor, error_ulp: torch.Tensor, columns: tuple[torch.Tensor, ...]
) -> Measurement:
    """The largest figures and, unless every score is 0, the element that has the largest score."""
    worst = score.argmax()
    columns = (score, error_ulp, *columns)
    if worst.is_cuda:  # one transfer for all, since each is a synchronisation
        picked = [column.reshape(-1).index_select(0, worst.view(1)).double() for column in columns]
        joined = [number.double().view(1) for number in (worst, error.max(), error_ulp.max())]
        at, absolute, ulp, *element = torch.cat(joined + picked).tolist()
        index = int(at)
    else:
        index = int(worst)
        absolute, ulp = error.max().item(), error_ulp.max().item()
        element = [float(column.reshape(-1)[index].item()) for column in columns]
    largest, worst_ulp, actual, expected, bound = element
    if largest == 0:
        return Measurement(max_absolute=absolute, max_ulp=ulp)
    return Measurement(
        score=largest,
        max_absolute=absolute,
        max_ulp=ulp,
        index=index,
        actual=actual,
        expected=expected,
        bound=bound,
        error_ulp=worst_ulp,
    )


def _count_exceeding(inside: torch.Tensor, actual: torch.Tensor, rounded: torch.Tensor) -> tuple[int, int, int]:
    """Elements outside; of those, the ones with a non-finite value on either side; and with NaN."""
    outside = ~inside
    if not actual.is_floating_point():
        return int(outside.sum()), 0, 0
    infinite = outside & ~(actual.isfinite() & rounded.isfinite())
    with_nan = outside & (actual.isnan() | rounded.isnan())
    counts = [mask.sum() for mask in (outside, infinite, with_nan)]
    exceeding, nonfinite, nan = torch.stack(counts).tolist()
    return exceeding, nonfinite, nan


def _only_judged(error: torch.Tensor, inside: torch.Tensor, masks: Masks | None) -> torch.Tensor:
    """Errors as they are reported: inf where NaN fails, 0 where nothing is judged."""
    error = torch.where(inside, error.nan_to_num(nan=0.0, posinf=torch.inf), error.nan_to_num(nan=torch.inf))
    if masks is not None and masks.unjudged is not None:
        error = error.masked_fill(masks.unjudged & inside, 0.0)
    return error


def _float_distances(
    actual: torch.Tensor, value: torch.Tensor, rounded: torch.Tensor, dtype: DType
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """|actual - value|, its part beyond half an ulp of the actual value, and the error in ulp of the value.

    An infinite actual value stands at 2^(emax+1), one ulp above the largest number (JAX's docs/accuracy.md);
    its lower half ulp ends where IEEE 754 rounds to infinity.
    """
    value = value.double()
    exact = actual.double()
    if dtype.name != "float64":
        infinity = 2.0 ** (dtype.emax + 1)
        exact = exact.clamp(-infinity, infinity)
    error = torch.where(actual != rounded, (exact - value).abs_(), 0.0)
    # The spacing is taken 2^-10 of the way towards the expected value: below a power of two it is half of that
    # above. That is the right binade while the error is below 2^10 ulp; beyond, it shifts the score by less
    # than 2^-10 of itself.
    at_actual, at_value = _spacing(torch.stack((exact.lerp(value, 2.0**-10), value)), dtype).unbind(0)
    return error, torch.sub(error, at_actual, alpha=0.5).clamp_(min=0.0), error / at_value


def _integer_distances(
    actual: torch.Tensor, value: torch.Tensor, rounded: torch.Tensor, dtype: DType
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same for integers, which are 1 apart."""
    del dtype
    error = torch.where(actual != rounded, (actual.double() - value.double()).abs_(), 0.0)
    return error, error, error


def _spacing(x: torch.Tensor, dtype: DType) -> torch.Tensor:
    """One ulp: the spacing of storable values at x, over the binades that hold any (NaN counts as the last)."""
    power = (x.view(torch.int64) & _EXPONENT_MASK).view(torch.float64)
    return power.clamp_(dtype.smallest_normal, 2.0**dtype.emax).mul_(dtype.eps)
