"""The value classes: ways of choosing an input's numbers, each with the bug classes that it brings out.

The letters are the bug classes of BUGS.md section 1. The generators live in `gpuemu.inputs.value_classes`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

CLEAN_SHARE = 0.25


@dataclass(frozen=True)
class ValueClass:
    """A named distribution; `targets` are the letters of the bug classes that it brings out.

    default: whether plans draw it without being asked to.
    dense: whether it is so hard that on every input of an op it leaves little of a result to judge: a plan
    gives it to one input at a time (`gpuemu.planning.isolation`). nonfinite: the share of NaN and infinities
    among the elements of a dense one, however long the rows; 0 where it falls with their length.
    """

    name: str
    meaning: str
    targets: str
    default: bool = True
    dense: bool = False
    nonfinite: float = 0.0

    @property
    def clean_length(self) -> int | None:
        """The longest line of elements of which a quarter or more hold no NaN or infinity; None: any length."""
        return int(math.log(CLEAN_SHARE) / math.log1p(-self.nonfinite)) if self.nonfinite else None


VALUE_CLASSES = {
    value_class.name: value_class
    for value_class in (
        ValueClass("uniform", "uniform in [-10, 10)", "ADJL"),
        ValueClass("bell", "bell-shaped, mean 0, variance 1 (a sum of uniforms)", "ADJL"),
        ValueClass("offset", "mean 100, spread 1: cancellation in means and variances", "AHI"),
        ValueClass("negative", "around -50, spread 1: padding with 0 wins over every real value", "AI"),
        ValueClass("log_uniform", "random sign, exponent in [-16, 8), random significand", "HIS"),
        ValueClass("small_integers", "integers in [-2, 2]: every summation order is exact", "ABEHN"),
        ValueClass("impulse", "zeros with one full-precision value per row", "DJL"),
        ValueClass("all_equal", "one value everywhere: uniform rows, ties", "AR"),
        ValueClass("sparse_nonfinite", "bell with one NaN or infinity in about a quarter of the rows", "I"),
        ValueClass(
            "exact_integers",
            "integers so small and so few that the op's accumulators sum them exactly in every order",
            "ABEHN",
            default=False,
        ),
        ValueClass("ones", "1 everywhere: the upstream gradient of a sum", "M", default=False),
        ValueClass(
            "nan_injected",
            "uniform in [-10, 10) with 5 % NaN, infinities and zeros",
            "I",
            default=False,
            dense=True,
            nonfinite=0.05 * 3 / 4,
        ),
        ValueClass(
            "adversarial",
            "equal parts of 0, subnormal, up to max/10, up to 1e3, and NaN with infinities",
            "HI",
            default=False,
            dense=True,
            nonfinite=1 / 5,
        ),
        ValueClass(
            "sparse_adversarial",
            "rows of one magnitude each (0, subnormal, max/10, 1e3, 10), a special value in a quarter of them",
            "HI",
            default=False,
            dense=True,
        ),
    )
}
DENSE_VALUE_CLASSES = tuple(name for name, value_class in VALUE_CLASSES.items() if value_class.dense)
DEFAULT_VALUE_CLASSES = tuple(name for name, value_class in VALUE_CLASSES.items() if value_class.default)
