"""Arithmetic profiles: what a legitimate kernel of an op may round (ORACLE.md section 2.4)."""

from __future__ import annotations

from dataclasses import dataclass

from gpuemu.dtypes import get_dtype
from gpuemu.errors import UsageError


@dataclass(frozen=True)
class Profile:
    """One rung of the ladder; each flag is a permission to lose precision.

    operand_rounding: computed operands of a contraction may be rounded to the storage dtype.
    eager: every intermediate may be rounded to the storage dtype.
    tf32: operands of a contraction may be truncated to tf32's 10 fractional bits.
    accumulator_roundoff: unit roundoff of the accumulators of contractions, where it is not the arithmetic's.
    fast_math: approximate elementary functions, reciprocals and square roots; results flushed to zero.
    """

    name: str
    meaning: str
    operand_rounding: bool = False
    eager: bool = False
    tf32: bool = False
    accumulator_roundoff: float | None = None
    fast_math: bool = False

    @property
    def changes_arithmetic(self) -> bool:
        """Whether it permits more than rounded operands, of which an op without contractions has none."""
        return self.eager or self.tf32 or self.fast_math or self.accumulator_roundoff is not None

    @property
    def has_coarse_accumulators(self) -> bool:
        """Whether sums or contractions may be accumulated in less than float32."""
        return self.eager or self.accumulator_roundoff is not None

    def is_within(self, other: Profile) -> bool:
        """Whether every permission of this profile is one of the other's, which permits more."""
        if other.eager:  # every intermediate in 16 bits covers operands, accumulators and functions
            return not self.tf32
        narrower = (other.accumulator_roundoff or 0.0) >= (self.accumulator_roundoff or 0.0)
        flags = ("operand_rounding", "eager", "tf32", "fast_math")
        return self != other and narrower and all(getattr(self, f) <= getattr(other, f) for f in flags)


# Hopper's and Ada's fp8 tensor cores keep 13 fractional bits of an accumulator (ORACLE.md section 2.1).
FP8_ACCUMULATOR_ROUNDOFF = 2.0**-13

PROFILES = {
    profile.name: profile
    for profile in (
        Profile("P0", "float32 arithmetic throughout"),
        Profile(
            "P1",
            "float32 arithmetic; computed operands of a matmul in the storage dtype",
            operand_rounding=True,
        ),
        Profile(
            "PF", "P1 with approximate elementary functions (fast-math)", operand_rounding=True, fast_math=True
        ),
        Profile("PT", "P1 with tf32 operands", operand_rounding=True, tf32=True),
        Profile(
            "P8",
            "P1 with the 13-bit accumulators of fp8 tensor cores",
            operand_rounding=True,
            accumulator_roundoff=FP8_ACCUMULATOR_ROUNDOFF,
        ),
        Profile("P2", "eager: every intermediate in the storage dtype", operand_rounding=True, eager=True),
    )
}
# Tightest first: a kernel that fails its own profile is re-judged under the looser ones (section 12.2).
LADDER = tuple(PROFILES)


def looser_profiles(name: str, dtype: str) -> list[str]:
    """Profiles to re-judge a failure of one profile under, the likeliest explanation first.

    tf32 is a way of multiplying float32, and fast-math of computing in it; what departs from 16-bit or 8-bit
    storage has most likely been rounded to 16 bits on the way.
    """
    likely = ("P1", "PF", "PT") if get_dtype(dtype).bits >= 32 else ("P1", "P2", "P8")
    return [other for other in likely if other != name and not PROFILES[other].is_within(PROFILES[name])]


def get_profile(name: str) -> Profile:
    """The profile of that name.

    Raises:
        UsageError: no such profile.
    """
    try:
        return PROFILES[name]
    except KeyError:
        raise UsageError(f"unknown profile {name!r}; known: {', '.join(PROFILES)}") from None


def default_profile(dtype: str) -> str:
    """P0 for float32 and wider, P1 for 16-bit and narrower storage (section 2.4)."""
    return "P0" if dtype in ("float32", "float64") else "P1"
