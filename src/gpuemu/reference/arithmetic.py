"""The arithmetic that a legitimate kernel may use: unit roundoff, range and permitted roundings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch

from gpuemu.dtypes import DType, get_dtype
from gpuemu.model.profile import get_profile
from gpuemu.rounding import round_to

TF32_ROUNDOFF = 2.0**-10  # tf32 operands are truncated to 10 fractional bits (ORACLE.md section 2.1)
FUNCTION_UNITS = 16.0  # rule 4
# tanh.approx.f32 is within about 2^-11 of tanh, the coarsest of the PTX approximations (ORACLE.md section 2.1;
# PTX ISA, "tanh"); the rest is headroom for what is computed from it.
FAST_MATH_ERROR = 2.0**-10


@dataclass(frozen=True)
class Arithmetic:
    """Constants of ORACLE.md sections 2.3 and 8 for one profile and storage dtype.

    unit_roundoff (u): of the compute format. precision: its significand's width in bits. overflow (OMEGA): its
    largest finite number. underflow (omega): the magnitude below which results may be flushed to zero.
    compute: dtype in which a representable result is computed without error; None: no such certificate.
    storage: dtype of the op's tensors. operand_rounding: computed operands of a contraction may be rounded to
    it. cast_rounding: a cast to 16 bits in the reference permits a rounding. tf32: relative error of each
    operand of a contraction. accumulator_roundoff: unit roundoff of what sums are accumulated in (0 for
    integers); contraction_roundoff: of what contractions are. sum_overflow, sum_underflow: range of those
    accumulators, where it is narrower than the compute format's. function_units: error of an elementary
    function, in units of u. rigorous: bounds hold for every rounding, not only for those that do not conspire.
    """

    unit_roundoff: float
    precision: int
    overflow: float
    underflow: float
    compute: str | None
    storage: DType
    operand_rounding: bool = False
    cast_rounding: bool = True
    tf32: float = 0.0
    accumulator_roundoff: float = 2.0**-24
    contraction_roundoff: float = 2.0**-24
    sum_overflow: float = math.inf
    sum_underflow: float = 0.0
    function_units: float = FUNCTION_UNITS
    rigorous: bool = False

    @property
    def is_coarse(self) -> bool:
        """Whether a rounding of an error, of relative size u, is worth counting (16-bit arithmetic)."""
        return self.unit_roundoff > 2.0**-20

    def growth(self, terms: int) -> float:
        """g(K) = min(K, 4 sqrt(K) + K/4) + 2: error of a sum of K terms in units of u sum |terms| (rule 5).

        Rigorous: K + 2, which no order of any rounded additions exceeds (Higham, section 4.2, to first order).
        """
        terms = max(terms, 1)
        if self.rigorous:
            return terms + 2.0
        return min(float(terms), 4.0 * math.sqrt(terms) + 0.25 * terms) + 2.0

    def sum_share(self, terms: int) -> float:
        """Error of a sum of K terms over sum |terms|: g(K) roundings of the accumulator, and of the result."""
        return self._share(terms, self.accumulator_roundoff)

    def contraction_share(self, terms: int) -> float:
        """As `sum_share`, for a contraction."""
        return self._share(terms, self.contraction_roundoff)

    def _share(self, terms: int, roundoff: float) -> float:
        share = self.growth(terms) * roundoff
        return share if roundoff >= self.unit_roundoff else share + self.unit_roundoff

    def exact_quanta(self, contraction: bool = False) -> float:
        """Sums of magnitudes up to this many quanta are exact in every order (rule 8): 2^(p - 1)."""
        roundoff = self.contraction_roundoff if contraction else self.accumulator_roundoff
        return 0.5 / max(roundoff, self.unit_roundoff)

    def literal(self, number: float) -> float:
        """A Python number of the reference as a kernel would hold it.

        References see float64 tensors, so `torch.finfo(x.dtype)`, and ops that take their eps from it, give
        float64's limits. They stand for the kernel's: the largest number of its compute format, and eps and the
        smallest normal number of float32, in which kernels for narrower storage hold them too.
        """
        if abs(number) == _FLOAT64.max:
            return math.copysign(self.overflow, number)
        if self.storage.name != "float64" and number in (_FLOAT64.eps, _FLOAT64.smallest_normal):
            return _FLOAT32.eps if number == _FLOAT64.eps else _FLOAT32.smallest_normal
        return number

    def constant_error(self, number: float) -> float:
        """How far off a kernel's copy of a number of the reference may be, held in the compute format."""
        if self.compute is None or isinstance(number, int):
            return 0.0
        return _rounding_error(number, self.compute)

    def fits(self, value: torch.Tensor) -> torch.Tensor:
        """Whether each float64 element has no more significant bits than the compute format (bool tensor).

        Within the range of its normal numbers, that makes it a number of the compute format.
        """
        if self.compute is None:
            return torch.zeros_like(value, dtype=torch.bool)
        return (value.view(torch.int64) & ((1 << (53 - self.precision)) - 1)) == 0


@cache
def _rounding_error(number: float, dtype: str) -> float:
    if not math.isfinite(number):
        return 0.0
    value = torch.tensor(number, dtype=torch.float64)
    error = float((round_to(value, dtype).double() - value).abs())
    return error if math.isfinite(error) else 0.0  # a number out of range is the range rule's affair


_FLOAT32, _FLOAT64 = get_dtype("float32"), get_dtype("float64")


@cache
def make_arithmetic(
    profile: str,
    dtype: str,
    unit_roundoff: float | None = None,
    accumulate: str = "float32",
    rigorous: bool = False,
) -> Arithmetic:
    """The arithmetic of a profile for tensors stored as `dtype`.

    Args:
        unit_roundoff: evaluate the reference's own error instead: float64's range, no permitted roundings.
        accumulate: dtype of accumulators, as the contract says; where a profile has coarser ones, those.
        rigorous: bounds that hold for every sequence of roundings.

    Raises:
        UsageError: no such profile or dtype.
    """
    rung = get_profile(profile)
    storage = get_dtype(dtype if get_dtype(dtype).is_float else "float32")
    wide = _FLOAT64
    if unit_roundoff is not None or storage.name == "float64":
        # No certificate: a float64 result is always a float64 number, exact or not.
        return Arithmetic(
            unit_roundoff or wide.unit_roundoff,
            wide.precision,
            wide.max,
            wide.smallest_normal,
            None,
            wide,
            cast_rounding=unit_roundoff is None,
            accumulator_roundoff=unit_roundoff or wide.unit_roundoff,
            contraction_roundoff=unit_roundoff or wide.unit_roundoff,
            sum_overflow=wide.max,
            sum_underflow=wide.smallest_normal,
            rigorous=rigorous,
        )
    format_ = _FLOAT32
    if rung.eager:  # 8-bit formats are for storage only: eager frameworks compute in 16 bits
        format_ = storage if storage.bits >= 16 else get_dtype("bfloat16")
    accumulator = get_dtype(accumulate)
    roundoff = accumulator.unit_roundoff if accumulator.is_float else 0.0
    largest, smallest = format_.max, format_.smallest_normal
    if accumulator.is_float:
        largest, smallest = min(largest, accumulator.max), max(smallest, accumulator.smallest_normal)
    if rung.eager:
        roundoff = max(roundoff, format_.unit_roundoff)
    return Arithmetic(
        unit_roundoff=format_.unit_roundoff,
        precision=format_.precision,
        overflow=format_.max,
        underflow=format_.smallest_normal,
        compute=format_.name,
        storage=storage,
        operand_rounding=rung.operand_rounding,
        tf32=TF32_ROUNDOFF if rung.tf32 and storage.name == "float32" else 0.0,
        accumulator_roundoff=roundoff,
        contraction_roundoff=max(roundoff, rung.accumulator_roundoff or 0.0),
        sum_overflow=largest,
        sum_underflow=smallest,
        function_units=FAST_MATH_ERROR / format_.unit_roundoff if rung.fast_math else FUNCTION_UNITS,
        rigorous=rigorous,
    )
