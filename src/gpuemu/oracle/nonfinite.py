"""What may stand where NaN, infinities and zeros are involved (ORACLE.md section 3), as the contract has it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gpuemu.dtypes import DType
from gpuemu.model.contract import DEFAULT_CONTRACT, Contract, NanPolicy

Tensor = torch.Tensor


@dataclass(frozen=True)
class Masks:
    """The elements of one output that the plain interval test does not settle; None where there are none.

    unjudged: any value is legitimate: rules 1 and 3, integers made from a non-finite value (rule 6), and
    elements that an input NaN reaches where the contract says "ignore" or "forbid".
    expects_nan: NaN is due because an input NaN reaches the element (rule 2).
    permits_nan: NaN is accepted beside what is due: an infinity or the masked value is, and some input was
    infinite (rule 4), or a format without infinities overflows.
    masked: the contract's `masked_value` is due instead of the reference's NaN (rule 3).
    saturates: an infinity is due, and the largest finite number of its sign may stand for it (rule 4).
    signs: a zero must have the sign of the expected value, which is certain (rule 6).
    All are bool tensors of the output's shape.
    """

    unjudged: Tensor | None = None
    expects_nan: Tensor | None = None
    permits_nan: Tensor | None = None
    masked: Tensor | None = None
    saturates: Tensor | None = None
    signs: Tensor | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the interval test settles every element."""
        return all(mask is None for mask in vars(self).values())

    def resolve(self, value: Tensor, bound: Tensor, rounded: Tensor) -> tuple[Tensor, Tensor]:
        """Value and bound with the masked value in its places, where `rounded` holds its storable number."""
        if self.masked is None:
            return value, bound
        return torch.where(self.masked, rounded.double(), value), torch.where(self.masked, 0.0, bound)

    def part(self, chunk: slice) -> Masks:
        """The masks of a range of elements in row-major order."""
        return Masks(*(None if mask is None else mask.reshape(-1)[chunk] for mask in vars(self).values()))


def classify(
    value: Tensor,
    bound: Tensor,
    expects_nan: Tensor | None,
    infinite_input: bool,
    integer_output: bool = False,
    contract: Contract = DEFAULT_CONTRACT,
) -> Masks:
    """Sort the elements of one output into the first four of the masks above.

    Args:
        value, bound: of an `ExpectedOutput`.
        expects_nan: its mask of NaN that comes from an input NaN. Rule 1 comes first: where the bound is inf or
            NaN, nothing is expected.
        infinite_input: whether some input held an infinity.
        integer_output: the storage dtype is an integer or bool.
    """
    unjudged = ~(bound < torch.inf)  # inf or NaN
    expected = permitted = masked = None
    if value.is_floating_point():
        nan = value.isnan() & ~unjudged
        if integer_output:
            unjudged |= ~value.isfinite()
        else:
            due = torch.zeros_like(nan) if expects_nan is None else nan & expects_nan
            if contract.nan in ("report", "propagate"):
                expected = _if_any(due)
            else:
                unjudged |= due
            if contract.masked_value is None:
                unjudged |= nan & ~due
            else:
                masked = _if_any(nan & ~due)
        if infinite_input and not integer_output:
            infinite = value.isinf() & ~unjudged
            permitted = _if_any(infinite if masked is None else infinite | masked)
    return Masks(_if_any(unjudged), expected, permitted, masked)


def permits_overflow_nan(value: Tensor, bound: Tensor, dtype: DType, contract: Contract) -> Tensor | None:
    """Where a format without infinities may answer an overflow with NaN; None for nowhere.

    The OCP 8-bit floating point specification (OFP8, revision 1.0) has two conversions to E4M3: a saturating
    one gives the largest number, the other NaN. What overflows is what would round beyond the largest
    number: from the middle between it and the next, were there one.
    """
    if dtype.has_infinity or contract.infinity == "saturate":
        return None
    limit = dtype.max + dtype.eps * 2.0**dtype.emax / 2.0
    return _if_any(value.abs() + bound > limit)


def saturates(rounded: Tensor, contract: Contract) -> Tensor | None:
    """Where the largest finite number may stand for an infinity; None for nowhere."""
    return _if_any(rounded.isinf()) if contract.infinity == "saturate" else None


def signs(value: Tensor, bound: Tensor, lower: Tensor, upper: Tensor, contract: Contract) -> Tensor | None:
    """Where a zero is acceptable and its sign certain; None for nowhere.

    Certain is the sign of an exact zero, and that of a number which its bound does not carry across zero and
    which is too small for the storage dtype.
    """
    if not contract.signed_zero:
        return None
    certain = (bound == 0) | (bound < value.abs())
    return _if_any(certain & (lower <= 0) & (upper >= 0))


def settle(actual: Tensor, rounded: Tensor, masks: Masks, largest: float) -> Tensor:
    """`actual`, with the expected infinity where the largest finite number may stand for it."""
    if masks.saturates is None:
        return actual
    stands_in = masks.saturates & (actual == torch.full_like(rounded, largest).copysign(rounded))
    return torch.where(stands_in, rounded, actual)


def allow(inside: Tensor, actual: Tensor, rounded: Tensor, masks: Masks, nan: NanPolicy = "report") -> Tensor:
    """The interval test's result, amended where the masks say so.

    Args:
        inside: whether each element of `actual` lies in its interval; false for NaN.
        rounded: the expected value in the storage dtype.
        nan: under "propagate" an element that should be NaN and is not is refused, under "forbid" every NaN;
            else it is let through, and `swallowed` tells.
    """
    if masks.unjudged is not None:
        inside = inside | masks.unjudged
    if masks.expects_nan is not None:
        kept = masks.expects_nan & actual.isnan() if nan == "propagate" else masks.expects_nan
        inside = inside | kept
    if masks.permits_nan is not None:
        inside = inside | (masks.permits_nan & actual.isnan())
    if nan == "forbid":
        inside = inside & ~actual.isnan()
    if masks.signs is not None:
        inside = inside & ~(masks.signs & (actual == 0) & (actual.signbit() != rounded.signbit()))
    return inside


def swallowed(actual: Tensor, masks: Masks) -> int:
    """How many elements should be NaN and are not (class NAN_SEMANTICS of rule 2)."""
    if masks.expects_nan is None:
        return 0
    return int((masks.expects_nan & ~actual.isnan()).sum())


def _if_any(mask: Tensor) -> Tensor | None:
    return mask if bool(mask.any()) else None
