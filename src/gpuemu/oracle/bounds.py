"""Which stored values are acceptable: the interval [lower, upper] per element (ORACLE.md section 2.3).

A value y is accepted when some real number in [r - delta, r + delta] rounds to y. Rounding is monotone, so that
is lower <= y <= upper, where lower is r - delta rounded with ties downwards and upper is r + delta rounded with
ties upwards: a tie belongs to both of its neighbours, whose closed rounding intervals meet there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from gpuemu.dtypes import DType, get_dtype, torch_dtype
from gpuemu.model.contract import DEFAULT_CONTRACT, Contract, NanPolicy
from gpuemu.model.expected import Expected, ExpectedOutput, Selection
from gpuemu.oracle import nonfinite
from gpuemu.oracle import selection as indices
from gpuemu.oracle.nonfinite import Masks
from gpuemu.rounding import half_ulp, round_to

# Elements worked on at a time on the CPU: the temporaries stay in the second-level cache, and three such pieces
# together stay below the 2^15 elements from which torch starts other threads and waits for them.
CHUNK_ELEMENTS = 10_240
# Relative widening of a non-zero delta. It exceeds the rounding errors of computing it and of r - delta and
# r + delta in float64 (2^-53 each, of |r| + delta), so that both ends move strictly outwards.
_WIDENING = 2.0**-51
_LARGEST_REACH = 2.0**62
# Where the reference's own error exceeds this share of delta + half an ulp, the element is not judged (12.7).
REFERENCE_SHARE = 2.0**-10
# How far beyond a generic bound an error counts as a failure; judgement, not a measurement.
GENERIC_FACTOR = 1e3
GENERIC_ROW_SHARE = 1e-2


@dataclass(frozen=True)
class OutputAcceptance:
    """What is accepted for one output.

    lower, upper: smallest and largest accepted value; rounded: the expected value correctly rounded. All have
    the output's shape and its storage dtype (float32, which is exact, for 8-bit floats, since torch cannot
    compare those). masks: None where every element is settled by lower <= y <= upper. judged: how many elements
    are judged. selection: set for an output of selected indices, which it alone settles. nan: the contract's
    policy. exact: every bound is 0 and every value a number, so that every legitimate kernel gives these bits
    (but for exact ties and the sign of a zero).
    """

    lower: torch.Tensor
    upper: torch.Tensor
    rounded: torch.Tensor
    dtype: DType
    masks: Masks | None
    elements: int
    judged: int
    selection: Selection | None = None
    nan: NanPolicy = "report"
    exact: bool = False

    def contains(self, actual: torch.Tensor) -> torch.Tensor:
        """Whether each element of `actual` (storage dtype, same shape) is acceptable: a bool tensor."""
        if self.selection is not None:
            return indices.contains(actual, self.selection, self.nan)
        actual, masks = comparable(actual), self.masks
        if masks is not None:
            actual = nonfinite.settle(actual, self.rounded, masks, self.dtype.max)
        inside = (actual >= self.lower) & (actual <= self.upper)  # false for NaN
        return inside if masks is None else nonfinite.allow(inside, actual, self.rounded, masks, self.nan)


@dataclass(frozen=True)
class Acceptance:
    """What is accepted for each output of a case under a contract. It does not depend on the candidate."""

    outputs: tuple[OutputAcceptance, ...]
    contract: Contract = DEFAULT_CONTRACT

    @property
    def is_exact(self) -> bool:
        """Whether there are elements and each has one answer, on which all legitimate kernels agree."""
        exact = (output.exact and output.selection is None for output in self.outputs)
        return any(output.elements for output in self.outputs) and all(exact)


def comparable(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in a dtype that torch can compare: 8-bit floats as float32, which holds them exactly."""
    return tensor.float() if tensor.element_size() == 1 and tensor.is_floating_point() else tensor


def accept(expected: Expected, contract: Contract = DEFAULT_CONTRACT) -> Acceptance:
    """The acceptance intervals and masks of every output, with the contract's policies worked in."""
    infinite = expected.infinite_input
    outputs = tuple(_accept_output(output, infinite, contract) for output in expected.outputs)
    return Acceptance(outputs, contract)


def scale(expected: Expected, constant: float) -> Expected:
    """Every bound times a constant, which calibration may only raise above 1 (section 6)."""
    if constant == 1.0:
        return expected
    return replace(expected, outputs=tuple(_scale_output(output, constant) for output in expected.outputs))


def _scale_output(output: ExpectedOutput, constant: float) -> ExpectedOutput:
    selection = output.selection and indices.scale(output.selection, constant)
    return replace(output, bound=output.bound * constant, selection=selection)


def coarsen(expected: Expected) -> Expected:
    """The bounds of a generic rule as far as they may convict: a thousandfold, and not below 1 % of the row.

    Eight draws say little about a bound (section 2.2), so what exceeds them is only suspicious (section 12.8).
    But zeros must not pass because an aten op has no rule yet: an error beyond these limits is no rounding.
    """
    return replace(expected, outputs=tuple(_coarsen_output(output) for output in expected.outputs))


def _coarsen_output(output: ExpectedOutput) -> ExpectedOutput:
    if output.selection is not None:
        coarse = indices.coarsen(output.selection, GENERIC_FACTOR, GENERIC_ROW_SHARE)
        return replace(output, selection=coarse)
    if not output.value.is_floating_point() or not output.value.numel():
        return output
    magnitude = output.value.abs().nan_to_num(nan=0.0, posinf=0.0)
    row = magnitude.amax(-1, keepdim=True) if magnitude.dim() else magnitude
    return replace(output, bound=torch.maximum(output.bound * GENERIC_FACTOR, row * GENERIC_ROW_SHARE))


def convicting(expected: Expected, acceptance: Acceptance) -> Acceptance:
    """What is accepted before a kernel is convicted: of a generic bound, only gross errors are refused."""
    return accept(coarsen(expected), acceptance.contract) if expected.generic else acceptance


def widen(expected: Expected, expected64: Expected) -> Expected:
    """Add the reference's own error to the bounds (section 12.7).

    Args:
        expected: value and bound delta of a case.
        expected64: the same evaluation with unit roundoff 2^-53; its bounds e64 are what float64 lost.

    Returns:
        delta + e64, or inf ("not judged") where e64 > 2^-10 (delta + half an ulp). NaN elements are left alone.
    """
    if expected.problem is not None:
        return expected
    if expected64.problem is not None:
        return replace(expected, problem=expected64.problem)
    pairs = zip(expected.outputs, expected64.outputs, strict=True)
    return replace(expected, outputs=tuple(_widen_output(*pair) for pair in pairs))


def _widen_output(output: ExpectedOutput, own: ExpectedOutput) -> ExpectedOutput:
    if output.selection is not None:
        return replace(output, selection=indices.widen(output.selection, own.selection))
    own_error = own.bound
    if not bool((own_error != 0).any()):
        return output
    value, bound = output.value, output.bound
    is_float = get_dtype(output.dtype).is_float
    half = half_ulp(value.double(), output.dtype) if is_float else 0.5  # integers are 1 apart
    known = own_error <= (bound + half) * REFERENCE_SHARE
    widened = torch.where(known, bound + own_error, torch.inf)
    if value.is_floating_point():
        widened = torch.where(value.isnan(), bound, widened)
    return replace(output, bound=widened)


def _accept_output(output: ExpectedOutput, infinite_input: bool, contract: Contract) -> OutputAcceptance:
    dtype, value, bound = get_dtype(output.dtype), output.value, output.bound
    elements = value.numel()
    make_levels = _float_levels if dtype.is_float else _integer_levels
    levels, plain, exact = make_levels(value, bound, dtype)
    masks, judged = None, elements
    if not plain:
        masks = nonfinite.classify(
            value, bound, output.expects_nan, infinite_input, not dtype.is_float, contract
        )
        judged -= int(masks.unjudged.sum()) if masks.unjudged is not None else 0
    if dtype.is_float:
        levels, masks = _with_policies(levels, masks, output, dtype, contract)
    lower, upper, rounded = levels
    selection = output.selection
    if selection is not None:
        selection = replace(selection, stable=selection.stable or contract.stable)
        judged = indices.judged(selection)
    return OutputAcceptance(
        lower, upper, rounded, dtype, masks, elements, judged, selection, contract.nan, exact and plain
    )


def _with_policies(
    levels: Sequence[torch.Tensor],
    masks: Masks | None,
    output: ExpectedOutput,
    dtype: DType,
    contract: Contract,
) -> tuple[Sequence[torch.Tensor], Masks | None]:
    """(lower, upper, rounded) and masks of a float output with what the contract says beyond the interval.

    By default, and in a format with infinities, that is nothing, and costs nothing.
    """
    value, bound = output.value, output.bound
    if masks is not None and masks.masked is not None and contract.masked_value is not None:
        due = torch.tensor(contract.masked_value, dtype=torch.float64, device=value.device)
        stored = comparable(round_to(due, dtype.name))
        levels = [torch.where(masks.masked, stored, level) for level in levels]
        value, bound = masks.resolve(value, bound, levels[2])
    if contract.infinity == "exact" and dtype.has_infinity and not contract.signed_zero:
        return levels, masks
    lower, upper, rounded = levels
    overflow = nonfinite.permits_overflow_nan(value, bound, dtype, contract)
    masks = masks or Masks()
    if overflow is not None and masks.permits_nan is not None:
        overflow = overflow | masks.permits_nan
    masks = replace(
        masks,
        permits_nan=masks.permits_nan if overflow is None else overflow,
        saturates=nonfinite.saturates(rounded, contract),
        signs=nonfinite.signs(value, bound, lower, upper, contract),
    )
    return levels, None if masks.is_empty else masks


def _float_levels(
    value: torch.Tensor, bound: torch.Tensor, dtype: DType
) -> tuple[Sequence[torch.Tensor], bool, bool]:
    """(lower, upper, rounded), whether every value and bound is finite, and whether every bound is 0.

    Piece by piece on the CPU.
    """
    value = value.double()
    elements = value.numel()
    if elements <= CHUNK_ELEMENTS or value.is_cuda:
        levels, plain, exact = _float_levels_of_part(value, bound, dtype)
        return levels.unbind(0), plain, exact
    stored = comparable(torch.empty(0, dtype=torch_dtype(dtype.name)))
    levels = torch.empty((3, elements), dtype=stored.dtype)
    flat_value, flat_bound = value.reshape(-1), bound.reshape(-1)
    plain = exact = True
    for start in range(0, elements, CHUNK_ELEMENTS):
        chunk = slice(start, start + CHUNK_ELEMENTS)
        part, is_plain, is_exact = _float_levels_of_part(flat_value[chunk], flat_bound[chunk], dtype)
        levels[:, chunk] = part
        plain, exact = plain and is_plain, exact and is_exact
    return levels.view(3, *value.shape).unbind(0), plain, exact


def _float_levels_of_part(
    value: torch.Tensor, bound: torch.Tensor, dtype: DType
) -> tuple[torch.Tensor, bool, bool]:
    lowest, highest, finite = _extremes(value, bound)
    plain = finite and highest < torch.inf
    if highest == 0:
        return _exact_levels(value, dtype), plain, True
    slack = value.abs().mul_(_WIDENING).add_(bound, alpha=1 + _WIDENING)
    levels = comparable(round_to(torch.stack((value - slack, value + slack, value)), dtype.name))
    if not (lowest > 0 and finite):
        # No widening where the bound is 0, so that exact stays exact; an infinity has no neighbourhood.
        levels = torch.where((bound == 0) | value.isinf(), _exact_levels(value, dtype), levels)
    return levels, plain, False


def _extremes(value: torch.Tensor, bound: torch.Tensor) -> tuple[float, float, bool]:
    """Smallest and largest bound (NaN if one is NaN) and whether every value is finite, in one host read."""
    if value.numel() == 0:
        return 0.0, 0.0, True
    ends = torch.stack((*torch.aminmax(bound), *torch.aminmax(value)))
    lowest, highest, smallest, largest = ends.tolist()
    return lowest, highest, smallest > -torch.inf and largest < torch.inf  # aminmax hands NaN on: false


def _exact_levels(value: torch.Tensor, dtype: DType) -> torch.Tensor:
    """As `_float_levels` for delta = 0: both neighbours of a tie, else the rounded value alone."""
    rounded = comparable(round_to(value, dtype.name))
    back = rounded.double()
    if dtype.name == "float64" or torch.equal(back, value):
        return rounded.expand(3, *rounded.shape)
    tie = (value - back).abs() == half_ulp(value, dtype.name)
    if dtype.has_infinity:  # the tie between the largest number and infinity (IEEE 754 section 4.3.1)
        tie |= value.abs() == 2.0**dtype.emax * (2.0 - dtype.unit_roundoff)
    inf = torch.full((), torch.inf, dtype=torch.float64, device=value.device)
    ends = torch.stack((torch.nextafter(value, -inf), torch.nextafter(value, inf)))
    lower, upper = comparable(round_to(torch.where(tie, ends, value), dtype.name)).unbind(0)
    return torch.stack((lower, upper, rounded))


def _integer_levels(
    value: torch.Tensor, bound: torch.Tensor, dtype: DType
) -> tuple[Sequence[torch.Tensor], bool, bool]:
    """As `_float_levels` for an integer or bool output."""
    storage = torch_dtype(dtype.name)
    plain = bool((bound < torch.inf).all())
    if value.is_floating_point():
        plain &= bool(value.isfinite().all())
        value = value.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).round()  # those are not judged
    rounded = value.to(storage)
    if not bool((bound != 0).any()):
        return (rounded, rounded, rounded), plain, True
    if storage == torch.bool:
        ambiguous = bound > 0
        return (rounded & ~ambiguous, rounded | ambiguous, rounded), plain, False
    # Integers within the bound, saturating at the ends of the dtype without wrapping on the way. A bound that
    # int64 can barely hold permits every value.
    limits = torch.iinfo(storage)
    reach = bound.nan_to_num(nan=0.0).clamp(max=_LARGEST_REACH).floor().to(torch.int64)
    wide, all_of_it = rounded.to(torch.int64), bound >= _LARGEST_REACH
    lower = torch.where((wide < limits.min + reach) | all_of_it, limits.min, wide - reach)
    upper = torch.where((wide > limits.max - reach) | all_of_it, limits.max, wide + reach)
    return (lower.to(storage), upper.to(storage), rounded), plain, False
