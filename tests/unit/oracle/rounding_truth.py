"""Float formats in exact rational arithmetic: patterns, neighbours, rounding intervals. An independent account.

Nothing here uses torch's or gpuemu's rounding: a bit pattern is decoded from its fields (IEEE 754-2019 section
3.4, OCP 8-bit floating point specification), and the reals that round to it end halfway to its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import torch


@dataclass(frozen=True)
class Format:
    name: str
    bits: int
    exponent_bits: int
    infinite: bool = True

    @property
    def mantissa_bits(self) -> int:
        return self.bits - 1 - self.exponent_bits

    @property
    def bias(self) -> int:
        return 2 ** (self.exponent_bits - 1) - 1

    @property
    def largest(self) -> int:
        """Bit pattern of the largest finite number."""
        if self.infinite:
            return ((2**self.exponent_bits - 1) << self.mantissa_bits) - 1
        return 2 ** (self.bits - 1) - 2  # only the all-ones pattern is NaN

    @cache  # noqa: B019 - the formats live as long as the tests
    def magnitude(self, pattern: int) -> Fraction:
        """The number of a non-negative pattern; the one past `largest` gives the next power of two or step."""
        exponent, mantissa = pattern >> self.mantissa_bits, pattern & (2**self.mantissa_bits - 1)
        significand = mantissa + (2**self.mantissa_bits if exponent else 0)
        power = max(exponent, 1) - self.bias - self.mantissa_bits
        return Fraction(significand << power) if power >= 0 else Fraction(significand, 1 << -power)

    def value(self, ordinal: int) -> Fraction:
        """The number at a signed position: 0 is zero, 1 the smallest subnormal, -1 its negative."""
        magnitude = self.magnitude(abs(ordinal))
        return magnitude if ordinal >= 0 else -magnitude

    def interval(self, ordinal: int) -> tuple[Fraction | None, Fraction | None]:
        """The closed set of reals that may round to it; None: unbounded. `largest + 1` stands for infinity."""
        if ordinal < 0:
            low, high = self.interval(-ordinal)
            return (None if high is None else -high), (None if low is None else -low)
        here = self.value(ordinal)
        low = (here + self.value(ordinal - 1)) / 2
        last = self.largest + 1 if self.infinite else self.largest
        return low, (None if ordinal == last else (here + self.value(ordinal + 1)) / 2)

    def residual(self, ordinal: int, r: Fraction) -> Fraction:
        """Distance from r to that set."""
        low, high = self.interval(ordinal)
        if low is not None and r < low:
            return low - r
        return r - high if high is not None and r > high else Fraction(0)

    def tensor(self, ordinals: list[int]) -> torch.Tensor:
        """Stored values by signed position; `largest + 1` gives infinity where the format has one."""
        sign = 1 << (self.bits - 1)
        patterns = [abs(o) | (sign if o < 0 else 0) for o in ordinals]
        signed = [p - (1 << self.bits) if p >= sign else p for p in patterns]
        integer = {32: torch.int32, 16: torch.int16, 8: torch.int8}[self.bits]
        return torch.tensor(signed, dtype=integer).view(getattr(torch, self.name))


FORMATS = (
    Format("float32", 32, 8),
    Format("float16", 16, 5),
    Format("bfloat16", 16, 8),
    Format("float8_e5m2", 8, 5),
    Format("float8_e4m3fn", 8, 4, infinite=False),
)
