"""Naming a pattern in wrong elements: one plain sentence, or nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch

from gpuemu.model.expected import ExpectedOutput
from gpuemu.oracle.bounds import OutputAcceptance, comparable
from gpuemu.oracle.selection_text import pattern

# Ratios and offsets are only named for this many wrong elements: fewer fit any line.
MINIMUM_ELEMENTS = 3
# Elements that stand in the wrong place are nearly all wrong: below this share no other place is searched.
MISPLACED = 0.25
# A region is named if at least this share of its elements is wrong: a single element is no region.
REGION = 0.25
# A ratio of values that differ by no more than this factor might as well be an offset.
VARIED = 1.5
# A row counts as wholly wrong from this share of wrong elements: a few may be right by chance.
WHOLE_ROW = 0.9


@dataclass(frozen=True)
class _Wrong:
    """Actual and expected values with the wrong elements marked, as rows by columns (the last axis)."""

    actual: torch.Tensor
    accepted: OutputAcceptance
    lower: torch.Tensor
    upper: torch.Tensor
    value: torch.Tensor
    bound: torch.Tensor
    failing: torch.Tensor

    @cached_property
    def share(self) -> float:
        """Share of wrong elements."""
        return float(self.failing.double().mean())

    @property
    def eps(self) -> float:
        return self.accepted.dtype.eps if self.accepted.dtype.is_float else 0.0


def hint(
    actual: torch.Tensor,
    output: ExpectedOutput,
    acceptance: OutputAcceptance,
    inputs: Mapping[str, torch.Tensor] | None = None,
) -> str:
    """One sentence that names the pattern of the wrong elements, or "" where none is recognised.

    Args:
        actual: an output that was found wrong, of the expected shape and dtype.
        inputs: the case's inputs by name, to recognise one that was handed through.
    """
    if acceptance.selection is not None:
        return pattern(actual, acceptance.selection)
    wrong = _find_wrong(actual, output, acceptance)
    if wrong is None:
        return ""
    passed_through = _input_name(actual, inputs or {})
    if passed_through:
        return f"the output equals the input {passed_through!r}"
    for recognise in _PATTERNS:
        sentence = recognise(wrong)
        if sentence:
            return sentence
    return ""


def uniform_ratio(actual: torch.Tensor, output: ExpectedOutput, acceptance: OutputAcceptance) -> float | None:
    """The one number that every wrong element is the expected value times; None where there is none.

    A factor that roundings to storage could make up is none, and neither is one of values that hardly differ:
    those would be a constant apart as well.
    """
    wrong = None if acceptance.selection is not None else _find_wrong(actual, output, acceptance)
    if wrong is None:
        return None
    ratio = _median_ratio(wrong)
    sizes = wrong.value[wrong.failing].abs()
    if ratio is None or not float(sizes.max()) > VARIED * float(sizes.min()):
        return None
    return ratio if _is_multiple(wrong, ratio) else None


def _find_wrong(actual: torch.Tensor, output: ExpectedOutput, acceptance: OutputAcceptance) -> _Wrong | None:
    failing = ~acceptance.contains(actual)
    if not bool(failing.any()):
        return None
    columns = actual.shape[-1] if actual.dim() else 1
    value, bound = output.value, output.bound
    if acceptance.masks is not None:
        value, bound = acceptance.masks.resolve(value, bound, acceptance.rounded)
    tensors = (comparable(actual), acceptance.lower, acceptance.upper, value, bound, failing)
    shown, lower, upper, value, bound, failing = (tensor.reshape(-1, columns) for tensor in tensors)
    return _Wrong(shown.double(), acceptance, lower, upper, value.double(), bound, failing)


def _input_name(actual: torch.Tensor, inputs: Mapping[str, torch.Tensor]) -> str:
    for name, tensor in inputs.items():
        if tensor.shape == actual.shape and tensor.is_floating_point() == actual.is_floating_point():
            shown = comparable(tensor.to(actual.dtype)), comparable(actual)
            if torch.equal(*shown):
                return name
    return ""


def _zeros(wrong: _Wrong) -> str:
    return "every element is zero" if not bool((wrong.actual != 0).any()) else ""


def _wrong_zeros(wrong: _Wrong) -> str:
    return "every wrong element is zero" if not bool((wrong.actual[wrong.failing] != 0).any()) else ""


def _zero_signs(wrong: _Wrong) -> str:
    shown = wrong.actual[wrong.failing]
    acceptable = (shown >= wrong.lower[wrong.failing]) & (shown <= wrong.upper[wrong.failing])
    only_signs = bool(((shown == 0) & acceptable).all())
    return "every wrong element is a zero of the wrong sign" if only_signs else ""


def _only_nonfinite(wrong: _Wrong) -> str:
    """NaN or infinity where a number is due, and nothing else wrong."""
    shown = wrong.actual[wrong.failing]
    nan, infinite = int(shown.isnan().sum()), int(shown.isinf().sum())
    if nan + infinite < shown.numel():
        return ""
    parts = [f"{count} {name}" for count, name in ((nan, "NaN"), (infinite, "infinite")) if count]
    return f"only non-finite elements are wrong ({' and '.join(parts)})"


def _ratio(wrong: _Wrong) -> str:
    """Every wrong element is the same multiple of the expected value, or each row has a multiple of its own."""
    ratio, numbers = _median_ratio(wrong), wrong.failing
    if ratio is None:
        return ""
    if _is_multiple(wrong, ratio):
        subject = "every element is" if torch.equal(numbers, wrong.value != 0) else "every wrong element is"
        if ratio == -1:
            return f"{subject} the expected value with its sign flipped"
        number = f"{ratio:.3f}" if abs(ratio) >= 0.1 else f"{ratio:.3g}"
        return f"{subject} {number}x the expected value"
    if int(numbers.sum(dim=1).max()) < MINIMUM_ELEMENTS:
        return ""
    ratios = wrong.actual / wrong.value
    largest = torch.where(numbers, wrong.value.abs(), -1.0).argmax(dim=1, keepdim=True)
    per_row = ratios.gather(1, largest)  # taken where rounding disturbs it least
    if not _follows(wrong, numbers, per_row * wrong.value, per_row.abs() * wrong.bound):
        return ""
    row = int(numbers.any(dim=1).to(torch.uint8).argmax())
    example = f"row {row}: {float(per_row[row]):.4g}x"
    return f"every wrong row is the expected row times a number of its own ({example})"


def _median_ratio(wrong: _Wrong) -> float | None:
    """The median of actual over expected, where every wrong element has such a ratio and there are enough."""
    numbers = wrong.failing & wrong.actual.isfinite() & wrong.value.isfinite() & (wrong.value != 0)
    if int(numbers.sum()) < MINIMUM_ELEMENTS or not torch.equal(numbers, wrong.failing):
        return None
    ratio = float((wrong.actual / wrong.value)[numbers].median())
    if ratio == 0 or not math.isfinite(ratio):
        return None  # zeros are named elsewhere
    # The storage dtype may tell no more than a whole number.
    return float(round(ratio)) if abs(ratio - round(ratio)) <= wrong.eps * abs(ratio) else ratio


def _is_multiple(wrong: _Wrong, ratio: float) -> bool:
    """Whether every wrong element is that multiple of the expected value.

    Some need not tell it from the expected value, being too small for it.
    """
    slack = abs(ratio) * wrong.bound
    return _follows(wrong, wrong.failing, ratio * wrong.value, slack, distinct_elements=MINIMUM_ELEMENTS)


def _offset(wrong: _Wrong) -> str:
    """Every wrong element is off by the same amount."""
    numbers = wrong.failing & wrong.actual.isfinite() & wrong.value.isfinite()
    if int(numbers.sum()) < MINIMUM_ELEMENTS or not torch.equal(numbers, wrong.failing):
        return ""
    offset = float((wrong.actual - wrong.value)[numbers].median())
    slack = wrong.bound + wrong.eps * wrong.value.abs()
    if offset == 0 or not _follows(wrong, numbers, wrong.value + offset, slack):
        return ""
    return f"every wrong element is the expected value {offset:+.3g}"


def _follows(
    wrong: _Wrong,
    numbers: torch.Tensor,
    predicted: torch.Tensor,
    slack: torch.Tensor,
    distinct_elements: int | None = None,
) -> bool:
    """Whether the wrong elements are what is predicted, up to `slack` and two roundings of the dtype.

    The prediction must also differ from the expected value by four times as much, in `distinct_elements` of
    them (None: in all): else rounding explains both.
    """
    rounding = wrong.eps * torch.maximum(predicted.abs(), wrong.actual.abs())
    rounding += wrong.eps * wrong.accepted.dtype.smallest_normal  # the spacing of subnormals
    allowed = slack + rounding
    close = (wrong.actual - predicted).abs() <= allowed
    distinct = (predicted - wrong.value).abs() > 4 * allowed
    enough = int(numbers.sum()) if distinct_elements is None else distinct_elements
    return bool(close[numbers].all()) and int(distinct[numbers].sum()) >= enough


def _transposed(wrong: _Wrong) -> str:
    rows, columns = wrong.actual.shape
    if columns < 2 or rows % columns or wrong.share < MISPLACED:
        return ""
    shape = (rows // columns, columns, columns)
    actual = wrong.actual.view(shape).transpose(1, 2).reshape(rows, columns)
    return "the output is the expected one transposed" if _all_inside(wrong, actual) else ""


def _shifted(wrong: _Wrong) -> str:
    """Rows, or columns, stand one place away from where they belong."""
    rows, columns = wrong.actual.shape
    if wrong.share < MISPLACED:
        return ""
    for axis, name, size in ((0, "row", rows), (1, "column", columns)):
        if size < 3:
            continue
        for step in (1, -1):
            if _matches_neighbour(wrong, axis, size, step):
                place = "after" if step == 1 else "before"
                return f"{name}s are shifted by one: each stands one {name} {place} its place"
    return ""


def _matches_neighbour(wrong: _Wrong, axis: int, size: int, step: int) -> bool:
    """Whether position i + step holds what position i should, for every i but the outermost."""
    there, here = (1, 0) if step == 1 else (0, 1)
    actual = wrong.actual.narrow(axis, there, size - 1)
    lower, upper = (t.narrow(axis, here, size - 1).double() for t in (wrong.lower, wrong.upper))
    wrong_where_it_stands = bool(wrong.failing.narrow(axis, there, size - 1).any())
    return wrong_where_it_stands and bool(((actual >= lower) & (actual <= upper)).all())


def _all_inside(wrong: _Wrong, actual: torch.Tensor) -> bool:
    return bool(((actual >= wrong.lower.double()) & (actual <= wrong.upper.double())).all())


def _tail(wrong: _Wrong) -> str:
    """Only the last columns, the last elements, or the first or last rows are wrong."""
    rows, columns = wrong.failing.shape
    total = int(wrong.failing.sum())
    first, count = _first_and_count(wrong.failing.any(dim=0))
    if first > 0 and count == columns - first and total >= REGION * rows * count:
        return f"wrong only from column {first} on (the last {count} of {columns} columns)"
    bad = wrong.failing.any(dim=1)
    row, count = _first_and_count(bad)
    if count == rows or total < REGION * count * columns:
        return ""
    which = "row" if count == 1 else f"{count} of {rows} rows"
    if row + count == rows:
        element = int(wrong.failing.reshape(-1).to(torch.uint8).argmax())
        tail = rows * columns - element
        if element % columns and total >= WHOLE_ROW * tail:
            return f"wrong only from element {element} on (the last {tail} in row-major order)"
        return f"wrong only in the last {which}"
    return f"wrong only in the first {which}" if not bool(bad[count:].any()) else ""


def _first_and_count(bad: torch.Tensor) -> tuple[int, int]:
    return int(bad.to(torch.uint8).argmax()), int(bad.sum())


def _whole_rows(wrong: _Wrong) -> str:
    rows, columns = wrong.failing.shape
    share = wrong.failing.sum(dim=1) / columns
    bad = share > 0
    count = int(bad.sum())
    if columns < 2 or count == rows or not bool((share[bad] >= WHOLE_ROW).all()):
        return ""
    first = int(bad.to(torch.uint8).argmax())
    return f"whole rows are wrong ({count} of {rows}, the first is row {first}); the others are right"


_PATTERNS: tuple[Callable[[_Wrong], str], ...] = (
    _zero_signs,
    _zeros,
    _only_nonfinite,
    _transposed,
    _shifted,
    _ratio,
    _offset,
    _tail,
    _whole_rows,
    _wrong_zeros,
)
