"""Rule 8 for one elementwise op: a representable result of exact operands is exact."""

from __future__ import annotations

import torch

from gpuemu.reference.extent import size_of, to_numbers
from gpuemu.reference.pieces import is_call_bound
from gpuemu.reference.step import Step, is_lossy, is_settled

Tensor = torch.Tensor
ONE = 0x3FF0000000000000  # the bits of 1.0 in float64


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
    # The significand's bits that do not fit, put behind those of 1.0: a float64 number that is 1 where there
    # are none. Floats are compared several times as fast as integers.
    excess = torch.bitwise_and(result.view(torch.int64), (1 << (53 - arithmetic.precision)) - 1)
    few_calls = is_call_bound(result)
    if few_calls and int(excess.min()) > 0:
        return error
    beyond = excess.bitwise_or_(ONE).view(torch.float64)
    if not few_calls and float(beyond.min()) > 1.0:
        return error
    lossy = beyond.sub_(1.0).ceil_()
    smallest, largest = to_numbers([size_of(result).min(), lossy.max()])
    exact = largest == 0.0
    if (
        not smallest >= arithmetic.underflow
    ):  # zeros, which are exact, and numbers that may be flushed, which are not
        flags = is_lossy(step)
        lossy, exact = flags, not bool(flags.any())
    if exact and (step.extent is not None or is_settled(arithmetic, result, None)):
        return None
    return error.mul_(lossy)
