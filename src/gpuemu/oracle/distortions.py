"""Small distortions of the right answer that a plan should reject, and the smallest error that it sees.

Trivial predictors say whether a test is worth anything; distortions say what it would let through: a last row
that is dropped, a tail that is never written, a shift, a factor of 1 + 2^-k (ORACLE.md section 12.5). All of it
is computed from the expected values; the candidate has no part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from gpuemu.model.expected import Expected
from gpuemu.oracle.bounds import Acceptance, OutputAcceptance, comparable, convicting
from gpuemu.rounding import half_ulp, round_to

Tensor = torch.Tensor
FINEST = 60  # no rounding of any storage dtype is finer than 2^-53


def _last_row_dropped(y: Tensor) -> Tensor | None:
    if y.dim() < 2 or y.shape[-2] < 2:
        return None
    result = y.clone()
    result[..., -1, :] = 0
    return result


def _tail_not_written(y: Tensor) -> Tensor | None:
    """Zeros beyond the largest power of two below the row's length, as where a last tile is left out."""
    if y.dim() < 1 or y.shape[-1] < 2:
        return None
    result = y.clone()
    result[..., 1 << (y.shape[-1] - 1).bit_length() - 1 :] = 0
    return result


def _last_element_zero(y: Tensor) -> Tensor | None:
    if y.numel() < 2:
        return None
    result = y.clone().contiguous()
    result.view(-1)[-1] = 0
    return result


def _rows_shifted(y: Tensor) -> Tensor | None:
    return y.roll(1, dims=-2) if y.dim() >= 2 and y.shape[-2] > 1 else None


def _columns_shifted(y: Tensor) -> Tensor | None:
    return y.roll(1, dims=-1) if y.dim() >= 1 and y.shape[-1] > 1 else None


def _sign_flipped(y: Tensor) -> Tensor | None:
    return -y if y.is_floating_point() else None


DISTORTIONS: dict[str, Callable[[Tensor], Tensor | None]] = {
    "last row dropped": _last_row_dropped,
    "tail not written": _tail_not_written,
    "last element zero": _last_element_zero,
    "rows shifted": _rows_shifted,
    "columns shifted": _columns_shifted,
    "sign flipped": _sign_flipped,
}


def rejected(expected: Expected, acceptance: Acceptance, names: Sequence[str]) -> tuple[str, ...]:
    """Which of the named distortions this case rejects in some output."""
    if expected.problem is not None:
        return ()
    acceptance = convicting(expected, acceptance)
    return tuple(
        name for name in names if any(_rejects(accepted, DISTORTIONS[name]) for accepted in acceptance.outputs)
    )


def _rejects(accepted: OutputAcceptance, distort: Callable[[Tensor], Tensor | None]) -> bool:
    distorted = distort(accepted.rounded)
    return distorted is not None and not bool(accepted.contains(distorted).all())


def visible_bits(expected: Expected, acceptance: Acceptance, at_least: int = 0) -> int | None:
    """The largest k for which this case rejects both factors 1 + 2^-k and 1 - 2^-k; None if none beats a value.

    Args:
        at_least: only k above it is of interest; most cases are then settled by one look.
    """
    if expected.problem is not None:
        return None
    acceptance = convicting(expected, acceptance)
    best: int | None = None
    for output, accepted in zip(expected.outputs, acceptance.outputs, strict=True):
        if not accepted.dtype.is_float or accepted.selection is not None or not accepted.elements:
            continue
        value = output.value.double()
        candidates = _candidate_bits(value, accepted)
        for bits in range(candidates, max(best or 0, at_least), -1):
            if all(_rejects_factor(value, accepted, 1.0 + sign * 2.0**-bits) for sign in (1.0, -1.0)):
                best = bits
                break
    return best


def _candidate_bits(value: Tensor, accepted: OutputAcceptance) -> int:
    """An upper end for k: no element can show a smaller relative error than its interval's half-width."""
    upper, lower = accepted.upper.double(), accepted.lower.double()
    half = half_ulp(value, accepted.dtype.name)
    room = torch.minimum(upper - value, value - lower).clamp(min=0.0) + 0.5 * half
    share = (room / value.abs()).nan_to_num(nan=torch.inf)
    share = torch.where(value.isfinite() & (value != 0) & (upper - lower).isfinite(), share, torch.inf)
    smallest = float(share.min())
    bits = 0
    while bits < FINEST and 2.0 ** -(bits + 1) >= smallest / 2.0:
        bits += 1
    return bits


def _rejects_factor(value: Tensor, accepted: OutputAcceptance, factor: float) -> bool:
    scaled = comparable(round_to(value * factor, accepted.dtype.name))
    return not bool(accepted.contains(scaled).all())
