"""Rule 4 for the derivatives of ln Gamma."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from gpuemu.reference.bounded import Bounded
from gpuemu.reference.elementwise import elementwise
from gpuemu.reference.registry import Call, rule
from gpuemu.reference.rules.generic import generic
from gpuemu.reference.rules.transcendental import PLAIN, UNITS
from gpuemu.reference.step import perturbation, to_operand

Tensor = torch.Tensor

# psi(x) = psi(x + m) - sum 1 / (x + i) with an asymptotic series from about 10 on (Abramowitz and Stegun, 6.3.6
# and 6.3.18): intermediates of about log 10 and H_9 = 2.83, which cancel near the root at 1.4616.
DIGAMMA = replace(PLAIN, floor=8.0)
# So many terms are summed before such a series; any may be flushed.
SUMMED_TERMS = 32


@rule("digamma")
def digamma(call: Call) -> Any:
    """psi, which grows between its poles at 0, -1, -2, …; nothing is known where the interval holds one.

    Below 0, psi(1 - x) - pi / tan(pi x) (6.3.7 there): log|x| is an intermediate too.
    """
    return _digamma(call, call.args[0])


def _digamma(call: Call, x: Any) -> Bounded:
    arithmetic, (value, error) = call.arithmetic, to_operand(x)
    result = elementwise(call.evaluation, torch.digamma, [(value, error)], DIGAMMA)
    if not value.numel() or (error is None and bool(value.min() > 0)):
        return result
    reach = perturbation(arithmetic, value, error)
    pole = torch.where(value < 0, value.round(), 0.0)
    touches = ((value - pole).abs() <= reach) & (value <= reach) & value.isfinite()
    size = torch.where(value < 0, value.abs(), 0.0).nan_to_num(posinf=0.0).log1p()
    known = torch.zeros_like(value) if result.error is None else result.error
    bound = known + 2.0 * UNITS * arithmetic.unit_roundoff * size
    bound = torch.where(touches, torch.inf, torch.where(result.value.isfinite(), bound, known))
    at_pole = (value == pole) if error is None else (value == pole) & (error == 0)
    return call.make(result.value, torch.where(at_pole & touches, 0.0, bound))


@rule("polygamma")
def polygamma(call: Call) -> Any:
    """The n-th derivative of psi, (-1)^(n + 1) n! sum (x + i)^-(n + 1), for x > 0 (6.4.10 there); else generic.

    All terms have one sign; a power is exp2(p log2 x), whose exponent may be off by 2u of itself. The sum is
    Hurwitz's zeta function; `torch.polygamma(1, x)` loses half of float64's digits.
    """
    order, x = call.args
    if order == 0:
        return _digamma(call, x)
    arithmetic, (value, error) = call.arithmetic, to_operand(x)
    lowest = value - perturbation(arithmetic, value, error)
    if value.numel() and not bool(lowest.min() >= arithmetic.underflow):
        return generic(call)
    factor = math.factorial(order)
    if factor > arithmetic.overflow:
        return generic(call)
    signed = float(factor if order % 2 else -factor)
    result = elementwise(
        call.evaluation, lambda t: torch.special.zeta(order + 1.0, t) * signed, [(value, error)], PLAIN
    )
    exponent = (order + 1) * (value.log().abs() + 3.0)
    own = result.value.abs() * exponent * (2.0 * arithmetic.unit_roundoff)
    own += SUMMED_TERMS * factor * arithmetic.underflow
    own.masked_fill_(~result.value.isfinite(), 0.0)
    return call.make(result.value, own if result.error is None else result.error + own)
