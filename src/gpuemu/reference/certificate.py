"""Rule 8 for one elementwise op: a representable result of exact operands is exact."""

from __future__ import annotations

import torch

from gpuemu.reference.step import Step, is_lossy, is_settled

Tensor = torch.Tensor


def certify(step: Step, error: Tensor) -> Tensor | None:
    """The rounding error without that of exact results; None if all are exact and in range.

    Args:
        error: of the op itself, for exact operands; may be overwritten.
    """
    arithmetic, result = step.arithmetic, step.result
    if arithmetic.compute is None:
        return error
    if result.numel() == 0:
        return None
    # The significand's bits that do not fit, looked at as a float64 subnormal: 0 where there are none. Floats
    # are compared several times as fast as integers. A processor that takes subnormals for zeros finds an exact
    # element where there is none, and all are looked at as integers.
    excess = torch.bitwise_and(result.view(torch.int64), (1 << (53 - arithmetic.precision)) - 1)
    if float(excess.view(torch.float64).amin()) > 0.0:
        return error
    lossy = is_lossy(step)
    if not bool(lossy.any()) and (step.extent is not None or is_settled(arithmetic, result, None)):
        return None
    return error.mul_(lossy)
