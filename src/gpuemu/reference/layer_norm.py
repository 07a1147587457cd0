"""The error of layer and RMS norms in closed form: the rules of their steps, fused.

All is worked out in units of the row's root s = sqrt(v + eps), v its variance or mean square. With r = 1 / s
and y the normalised value, |d| = |y| s is the deviation, and each row's error is an affine function of |y|.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from gpuemu.reference.accumulation import size_over
from gpuemu.reference.arithmetic import Arithmetic
from gpuemu.reference.constants import number_tensor, scalar
from gpuemu.reference.extent import Extent
from gpuemu.reference.pieces import cut, pieces

Tensor = torch.Tensor
NEGLIGIBLE = 1e-6
SLACK = 1.0 + 2.0**-40  # float64's own roundings


@dataclass(frozen=True)
class Rows:
    """A norm's argument and normalised value as rows of shape (R, n); mean and inverse root of shape (R, 1).

    error: of the argument; None if it is exact. mean: None for an RMS norm. extent: of the argument.
    """

    x: Tensor
    error: Tensor | None
    value: Tensor
    mean: Tensor | None
    inverse: Tensor
    eps: float
    extent: Extent

    @property
    def terms(self) -> int:
        return self.x.shape[1]

    def moments(self) -> tuple[Tensor, tuple[Tensor | None, ...]]:
        """|y|; sums per row of |x| and |y| (None without a mean), and of e, |y| e and e^2 (None if exact)."""
        size = torch.empty_like(self.value)
        sums: list[list[Tensor]] = []
        for piece in pieces(self.x, (1,)) or ((0, 0, self.x.shape[0]),):
            x, error, value, part = (cut(t, 2, piece) for t in (self.x, self.error, self.value, size))
            torch.abs(value, out=part)
            found = [] if self.mean is None else [size_over(x, [1]), part.sum(1, keepdim=True)]
            if error is not None:
                found.append(error.sum(1, keepdim=True))
                found += [torch.linalg.vecdot(t, error).unsqueeze(1) for t in (part, error)]
            sums.append(found)
        whole = [each[0] if len(each) == 1 else torch.cat(each) for each in zip(*sums, strict=True)]
        absolute, deviation = (None, None) if self.mean is None else whole[:2]
        return size, (absolute, deviation, *((None, None, None) if self.error is None else whole[-3:]))


@dataclass(frozen=True)
class RowError:
    """The value's error, |y| slope + shift + (1 + h) r e, and what can leave the range, per row.

    t: the least that is left of s^2, relative to it. q: its relative error. largest: sum |x|, or more.
    """

    slope: Tensor
    shift: Tensor
    h: Tensor
    q: Tensor
    t: Tensor
    largest: Tensor


@dataclass(frozen=True)
class NormError:
    """Errors of the normalised value (R, n), the mean and the inverse root (R, 1); the value's extent."""

    value: Tensor
    mean: Tensor | None
    inverse: Tensor
    extent: Extent


def layer_norm_error(arithmetic: Arithmetic, rows: Rows) -> NormError | None:
    """Errors of a layer norm of two passes, or running ones; None if something may leave the range.

    With d = x - mean, v = mean(d^2), s^2 = v + eps, r = 1 / s and y = d r:

    e_mean = mean(e) + g u mean(|x| + e) + u |mean| + omega
    e_d = e + u |d| + c, c = e_mean + u |mean| + omega       since max(|x|, |mean|, |d|) <= |d| + |mean|
    p = mean(2|d| e_d + e_d^2)                               e_v = p + (g + 2) u (v + p) + 2 omega
    q = (e_v + e_eps + omega) / s^2 + u                      t = max(1 - q, (1 - 2u) eps / s^2), since v >= 0
    h = (1 - t) / (t + sqrt(t)) + 4 u + omega s              e_r = h r
    e_y = |d| (e_r + u r) + (r + e_r) e_d + omega = |y| (h + u + u (1 + h)) + (1 + h) r (e + c) + omega
    """
    u, omega, growth = arithmetic.unit_roundoff, arithmetic.underflow, arithmetic.sum_share(rows.terms)
    mean, terms = rows.mean, rows.terms
    size, (absolute, deviation, e, ye, ee) = rows.moments()
    if mean is None or absolute is None or deviation is None:
        raise ValueError("a layer norm has a mean")
    inverse, eps, constant = rows.inverse, rows.eps, arithmetic.constant_error(rows.eps)
    offset = mean.abs()
    mean_error = torch.add(scalar(2.0 * omega), absolute, alpha=growth / terms)
    if e is not None:
        mean_error.add_(e, alpha=(1.0 + growth) / terms)
    c = torch.add(mean_error, offset, alpha=2.0 * u).mul_(inverse)  # r c, with the flush of e_mean
    mean_error.add_(offset, alpha=u)
    squared = inverse.square()
    # r^2 mean(2|d| e_d + e_d^2), without u (2 + u) v, which belongs to the terms in v = s^2 - eps below.
    p = torch.add(c, deviation, alpha=(2.0 + 2.0 * u) / terms).mul_(c)
    if e is not None and ye is not None and ee is not None:
        p.addcmul_(ye, inverse, value=(2.0 + 2.0 * u) / terms).addcmul_(ee, squared, value=1.0 / terms)
        p.addcmul_(c, e * inverse, value=2.0 / terms)
    share = u * (2.0 + u) * (1.0 + growth + 2.0 * u) + growth + 2.0 * u
    q = torch.add(scalar((share + u) * SLACK), squared, alpha=3.0 * omega + constant - share * eps)
    q.add_(p, alpha=1.0 + growth + 2.0 * u)
    t = torch.maximum(1.0 - q, squared.mul_(eps * (1.0 - 2.0 * u)))
    h = _root_error(arithmetic, rows, t)
    slope = torch.add(scalar(2.0 * u), h, alpha=1.0 + u)
    shift = torch.addcmul(c, c, h).add_(omega)
    return _finish(arithmetic, rows, size, RowError(slope, shift, h, q, t, absolute), mean_error)


def rms_norm_error(arithmetic: Arithmetic, rows: Rows) -> NormError | None:
    """Errors of an RMS norm; None if something may leave the range.

    With v = mean(x^2), s^2 = v + eps, r = 1 / s, y = x r, whose square is a power (4 u, rule 3):

    p = mean(2|x| e + e^2)                       e_v = (1 + g) (p + 4 u v + omega) + (g + u) v + omega
    q = (e_v + e_eps + omega) / s^2 + u                      t = 1 - q
    h = (1 - t) / (t + sqrt(t)) + 4 u + omega s              e_y = |y| (h + u) + (1 + h) r e + omega
    """
    u, omega, growth = arithmetic.unit_roundoff, arithmetic.underflow, arithmetic.sum_share(rows.terms)
    inverse, constant = rows.inverse, arithmetic.constant_error(rows.eps)
    size, (_, _, _, ye, ee) = rows.moments()
    share = 4.0 * u * (1.0 + growth) + growth + u
    more = omega * (3.0 + growth) + constant - share * rows.eps
    squared = inverse.square()
    q = torch.add(scalar((share + u) * SLACK), squared, alpha=more)
    if ye is not None and ee is not None:
        factor = (1.0 + growth) * SLACK / rows.terms
        q.addcmul_(ye, inverse, value=2.0 * factor).addcmul_(ee, squared, value=factor)
    t = 1.0 - q
    h = _root_error(arithmetic, rows, t)
    shift, largest = (number_tensor(x, h.device) for x in (omega, rows.terms * rows.extent.reach))
    return _finish(arithmetic, rows, size, RowError(h + u, shift, h, q, t, largest))


def _root_error(arithmetic: Arithmetic, rows: Rows, t: Tensor) -> Tensor:
    """The relative error of 1 / s at s^2 t instead of s^2, and its own; NaN for t < 0."""
    own, flush = 4.0 * arithmetic.unit_roundoff, arithmetic.underflow
    # The variance is at most M^2; an eps below 0 only takes from it.
    most = flush * math.hypot(rows.extent.reach, math.sqrt(max(rows.eps, 0.0))) * SLACK
    h = (1.0 - t).div_(t.sqrt().add_(t))
    return h.add_(own + most) if most < NEGLIGIBLE * own else h.add_(own).add_(flush / rows.inverse)


def _finish(
    arithmetic: Arithmetic,
    rows: Rows,
    size: Tensor,
    row: RowError,
    mean_error: Tensor | None = None,
) -> NormError | None:
    """|y| slope + shift + (1 + h) r e, in the memory of |y|; None if something may leave the range."""
    extent = _foresee(arithmetic, rows) or _look(arithmetic, rows, row)
    if extent is None:
        return None
    weight = None if rows.error is None else torch.addcmul(rows.inverse, rows.inverse, row.h)
    for piece in pieces(rows.x, (1,)) or ((0, 0, rows.x.shape[0]),):
        part, slope, shift, factor, error = (
            cut(t, 2, piece) for t in (size, row.slope, row.shift, weight, rows.error)
        )
        torch.addcmul(shift, part, slope, out=part)
        if error is not None:
            part.addcmul_(error, factor)
    return NormError(size, mean_error, row.h * rows.inverse, extent)


def _foresee(arithmetic: Arithmetic, rows: Rows) -> Extent | None:
    """The value's extent by that of the argument; None unless all steps must stay in range.

    With |x| + e <= M: the mean of |x| is at most M, |d| at most 2M, r at most 1 / sqrt(eps), mean |y| at most 1
    and |y| at most sqrt(n) by Cauchy and Schwarz. RMS norms lose no more, but their t may vanish.
    """
    u, omega, terms, eps = arithmetic.unit_roundoff, arithmetic.underflow, rows.terms, rows.eps
    growth, reach, e = arithmetic.sum_share(terms), rows.extent.reach, rows.extent.error
    if not (eps > 0.0 and reach < 1e150):
        return None
    root, squared = SLACK / math.sqrt(eps), (4.0 * reach * reach + eps) * SLACK
    relative = e * root
    c = (growth + 2.0 * u) * reach * root + 2.0 * omega * root + (1.0 + growth) * relative
    p = (c + relative) * (3.0 + c + relative)
    q = (1.0 + growth + 4.0 * u) * (p + 4.0 * u) + growth + 4.0 * u
    q += (omega * (3.0 + growth) + arithmetic.constant_error(eps)) * root * root
    t = (1.0 - 2.0 * u) * eps / squared
    if rows.mean is None:
        t = 1.0 - q
    largest_sum = max(terms * reach, terms * squared * (1.0 + q))
    if not (t > 0.0 and t * squared >= 2.0 * omega and eps * t >= 0.0 and largest_sum <= arithmetic.overflow):
        return None
    if rows.mean is None and not t * eps >= omega:
        return None
    h = 1.0 / math.sqrt(t) + 4.0 * u + omega * math.sqrt(squared)
    largest = math.sqrt(terms) * SLACK
    error = (largest * (h + u) * (1.0 + 2.0 * u) + (1.0 + h) * (c + relative) + omega) * SLACK
    return Extent(largest + error, error) if largest + error <= arithmetic.overflow else None


def _look(arithmetic: Arithmetic, rows: Rows, row: RowError) -> Extent | None:
    """As `_foresee`, by the rows' own numbers."""
    squared, omega = rows.inverse.square(), arithmetic.underflow
    sums = torch.maximum(row.largest, (1.0 + row.q).div_(squared).mul_(rows.terms))
    ends = [
        sums.amax(),
        (row.t / squared).amin(),
        row.slope.amax(),
        row.shift.amax(),
        row.h.amax(),
        rows.inverse.amax(),
    ]
    reach, lowest, slope, shift, h, inverse = torch.stack(ends).tolist()
    if not (reach <= arithmetic.overflow and lowest >= omega):  # NaN compares false
        return None
    largest = math.sqrt(rows.terms) * SLACK
    error = (largest * slope + shift + (1.0 + h) * inverse * rows.extent.error) * SLACK
    return Extent(largest + error, error) if largest + error <= arithmetic.overflow else None
