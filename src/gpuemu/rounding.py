"""One correct rounding from float64 to a storage dtype.

torch and ml_dtypes convert float64 to a 16-bit format through float32, that is with two roundings, which is
wrong for half of all near-midpoint values (ORACLE.md section 2.1). Here the value is first rounded to the
target's precision inside float64, where every storable value is exact; the final conversion is then exact.
"""

from __future__ import annotations

import torch

from gpuemu.dtypes import get_dtype, torch_dtype

_EXPONENT_MASK = 0x7FF0000000000000


def round_to(x: torch.Tensor, dtype: str) -> torch.Tensor:
    """Round a float64 tensor to `dtype`, to nearest, ties to even, once.

    Args:
        x: float64 tensor of any shape; NaN and infinities are kept (saturated to `max` where the format has
            no infinity).
        dtype: name of a float storage dtype.

    Returns:
        A tensor of `dtype` and x's shape. Overflow goes to infinity (IEEE 754 section 4.3.1).
    """
    target = get_dtype(dtype)
    if target.name == "float64":
        return x
    if target.name == "float32":
        return x.to(torch.float32)
    finite_range = 2.0 ** (target.emax + 2)
    clamped = x.clamp(-finite_range, finite_range)  # keeps NaN; infinities become a finite overflow
    # Adding and subtracting 1.5*2^52 quanta rounds to a multiple of the quantum, ties to even (Dekker's
    # constant); the quantum is 2^(exponent - precision + 1), not below the subnormal spacing.
    power = (clamped.view(torch.int64) & _EXPONENT_MASK).view(torch.float64)
    shift = power.clamp_(min=target.smallest_normal).mul_(1.5 * 2.0 ** (53 - target.precision))
    rounded = (clamped + shift).sub_(shift)
    if not target.has_infinity:
        rounded = rounded.clamp(-target.max, target.max)
    return torch.copysign(rounded, x).to(torch_dtype(dtype))


def half_ulp(x: torch.Tensor, dtype: str) -> torch.Tensor:
    """Half the spacing of `dtype` at |x| (float64, x's shape); half the smallest subnormal at 0."""
    target = get_dtype(dtype)
    clamped = x.clamp(-target.max, target.max).nan_to_num(nan=0.0)
    power = (clamped.view(torch.int64) & _EXPONENT_MASK).view(torch.float64)
    return power.clamp_(min=target.smallest_normal).mul_(2.0**-target.precision)
