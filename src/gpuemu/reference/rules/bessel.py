"""Rule 4 for the modified Bessel functions I0 and I1, which grow like exp(x) / sqrt(2 pi x).

J0 and J1 stay generic: torch's own, in float64, are only good to 1e-7 around 5.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpuemu.reference.elementwise import elementwise
from gpuemu.reference.registry import Call, rule
from gpuemu.reference.rules.transcendental import PLAIN, unary
from gpuemu.reference.step import to_operand

# JAX's exhaustive tables give i1e up to 15.5 ulp on GPUs (ORACLE.md section 2.1), that is 31 u.
SCALED = replace(PLAIN, units=32.0)
# exp(x) itself, of which I0 and I1 are the sqrt(2 pi x)-th part: 24 of it at the end of float32's range.
MODIFIED = replace(SCALED, headroom=24.0)
EVEN = {"i0": MODIFIED, "special_modified_bessel_i0": MODIFIED, "special_i0e": SCALED}
ODD = {
    "special_i1": MODIFIED,
    "special_modified_bessel_i1": MODIFIED,
    "special_i1e": replace(SCALED, dip=0.2192),  # the largest of I1(x) exp(-x), at 1.545
}


@rule(*EVEN)
def even(call: Call) -> Any:
    """Monotone in |x|, which never is below 0: the extreme is there."""
    value, error = to_operand(call.args[0])
    return elementwise(
        call.evaluation, lambda size: call.func(size.clamp(min=0.0)), [(value.abs(), error)], EVEN[call.name]
    )


@rule(*ODD)
def odd(call: Call) -> Any:
    """Monotone, but for the extremes of i1e."""
    return unary(call, ODD[call.name])
