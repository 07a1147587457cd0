"""The exactness certificate's quantum: the largest power of two that divides every element (rule 8)."""

from __future__ import annotations

import math

import torch

_MANTISSA = 0x000FFFFFFFFFFFFF
_EXPONENT = 0x7FF0000000000000
_HIDDEN = 0x0010000000000000
# Elements looked at first: their quantum bounds that of all.
_SAMPLE = 16


def lowest_bit(x: torch.Tensor) -> float:
    """The largest power of two of which every finite float64 element is a multiple; inf if all are zero."""
    if x.numel() == 0:
        return float("inf")
    bits = x.view(torch.int64)
    significand = (bits & _MANTISSA) | _HIDDEN
    lowest = (significand & -significand).double()
    power = (bits & _EXPONENT).view(torch.float64)  # 2^exponent; 0 for zeros and float64 subnormals
    return float(torch.where(x == 0, torch.inf, lowest.mul_(2.0**-52).mul_(power)).min())


def may_share_lowest_bit(quanta: float, smallest: float | torch.Tensor, *factors: torch.Tensor) -> bool:
    """Whether any sum of magnitudes can be below that many quanta, judged by a sample of the factors.

    The quantum of a sample is a multiple of the quantum of all, so "no" is certain and "yes" is to be checked.

    Args:
        smallest: of the sums; as a tensor it is read together with the samples, in one wait for a device.
    """
    samples = [_sample(factor).reshape(-1) for factor in factors]
    lengths = [sample.numel() for sample in samples]
    if isinstance(smallest, torch.Tensor):
        samples.append(smallest.double().reshape(1))
    numbers = torch.cat(samples).tolist() if samples else []
    least = numbers.pop() if isinstance(smallest, torch.Tensor) else smallest
    quantum = 1.0
    for length in lengths:
        quantum *= min(map(_quantum, numbers[:length]), default=math.inf)
        numbers = numbers[length:]
    return bool(least <= quantum * quanta)


def _quantum(number: float) -> float:
    """The largest power of two of which a number is a multiple; inf for 0 and what is not finite."""
    if number == 0 or not math.isfinite(number):
        return math.inf
    numerator, denominator = number.as_integer_ratio()
    return (numerator & -numerator) / denominator


def _sample(x: torch.Tensor) -> torch.Tensor:
    while x.dim() > 1 and x.numel() > _SAMPLE:
        x = x.select(0, 0)
    return x.narrow(0, 0, min(_SAMPLE, x.shape[0])) if x.dim() else x
