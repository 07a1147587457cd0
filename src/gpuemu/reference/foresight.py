"""The extent of an elementwise result, foreseen from those of the operands (rule 7 without looking)."""

from __future__ import annotations

from collections.abc import Sequence

from gpuemu.reference.arithmetic import Arithmetic
from gpuemu.reference.extent import Extent, extent_of
from gpuemu.reference.step import WIDE, Loss, Operand

# Closed forms exceed slope times error, but never by more than this factor.
FORM_FACTOR = 2.0
# Roundings of this module's own numbers, and of float64 values and errors.
SLACK = 1.0 + 2.0**-40


def foresee(
    arithmetic: Arithmetic, loss: Loss, operands: Sequence[Operand]
) -> tuple[Extent | None, float | None]:
    """The result's extent, None unless it is known to be in range; and the largest operand error, if known.

    With |x_i| + e_i <= M_i and |f|, |df/dx_i| at most F, F_i there: no |f| exceeds F, and no error exceeds
    2 sum F_i E_i + own, with E_i the operands' errors with their perturbation, own as `own_error` for F and M.
    """
    more = 2.0 * arithmetic.unit_roundoff if loss.perturbed else 0.0
    reaches, errors = [], []
    for value, error_of_value in operands:
        extent = extent_of(value, error_of_value)
        if extent is None:
            return None, None
        reaches.append(extent.reach * (1.0 + more) * SLACK)
        errors.append((extent.error + more * extent.reach) * SLACK)
    widest = max(errors)
    if loss.growth is None:
        return None, widest
    try:
        largest, slopes = loss.growth(*reaches)
    except OverflowError:
        return None, widest
    error = 0.0
    for slope, e in zip(slopes, errors, strict=True):
        if e:  # a slope may be infinite
            error += FORM_FACTOR * slope * e
    if loss.units:
        error = _with_rounding(arithmetic, loss, error, largest, reaches)
    if loss.dip and widest > WIDE:
        error += loss.dip
    reach = (largest + error) * SLACK
    if not loss.headroom * reach <= arithmetic.overflow:
        return None, widest
    return Extent(reach, error * SLACK), widest


def _with_rounding(
    arithmetic: Arithmetic, loss: Loss, error: float, largest: float, reaches: Sequence[float]
) -> float:
    units = max(loss.units, arithmetic.function_units) if loss.perturbed else loss.units
    size = max(largest, loss.floor)
    if loss.scale != "result":
        size = max(size, *reaches)
    own = units * arithmetic.unit_roundoff * size + arithmetic.underflow * (1e5 + sum(reaches))
    return (error + own) * (1.0 + units * arithmetic.unit_roundoff)
