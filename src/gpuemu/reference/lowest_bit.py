"""The exactness certificate's quantum: the largest power of two that divides every element (rule 8)."""

from __future__ import annotations

import torch

_MANTISSA = 0x000FFFFFFFFFFFFF
_EXPONENT = 0x7FF0000000000000
_HIDDEN = 0x0010000000000000
# Elements looked at first: their quantum bounds that of all.
_SAMPLE = 64


def lowest_bit(x: torch.Tensor) -> float:
    """The largest power of two of which every finite float64 element is a multiple; inf if all are zero."""
    if x.numel() == 0:
        return float("inf")
    bits = x.view(torch.int64)
    significand = (bits & _MANTISSA) | _HIDDEN
    lowest = (significand & -significand).double()
    power = (bits & _EXPONENT).view(torch.float64)  # 2^exponent; 0 for zeros and float64 subnormals
    return float(torch.where(x == 0, torch.inf, lowest.mul_(2.0**-52).mul_(power)).min())


def may_share_lowest_bit(quanta: float, smallest: float, *factors: torch.Tensor) -> bool:
    """Whether any sum of magnitudes can be below that many quanta, judged by a sample of the factors.

    The quantum of a sample is a multiple of the quantum of all, so "no" is certain and "yes" is to be checked.
    """
    quantum = 1.0
    for factor in factors:
        quantum *= lowest_bit(_sample(factor))
    return smallest <= quantum * quanta


def _sample(x: torch.Tensor) -> torch.Tensor:
    while x.dim() > 1 and x.numel() > _SAMPLE:
        x = x[0]
    return x[:_SAMPLE] if x.dim() else x
