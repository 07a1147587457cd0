"""The error of a layer norm in closed form: the rules of its five steps, fused into one pass over the rows."""

from __future__ import annotations

import torch

from gpuemu.reference.arithmetic import Arithmetic
from gpuemu.reference.pieces import cut, pieces

Tensor = torch.Tensor
Errors = tuple[Tensor, Tensor, Tensor]


def layer_norm_error(
    arithmetic: Arithmetic,
    x: Tensor,
    error: Tensor | None,
    mean: Tensor,
    inverse: Tensor,
    eps: float,
    normalised_dims: int,
) -> Errors | None:
    """Errors of the normalised value, the mean and the inverse root; None if something leaves the range.

    Args:
        x, error: the argument; the last `normalised_dims` dims are normalised over.
        mean, inverse: float64 results of the layer norm, with the reduced dims kept.
    """
    if x.numel() == 0:
        return None
    split = x.dim() - normalised_dims
    rows = x.reshape(*x.shape[:split], -1).reshape(-1, x.shape[split:].numel())
    row_error = None if error is None else error.reshape(rows.shape)
    row_mean, row_inverse = mean.reshape(-1, 1), inverse.reshape(-1, 1)
    total = torch.empty_like(rows)
    mean_error, inverse_error = torch.empty_like(row_mean), torch.empty_like(row_inverse)
    for piece in pieces(rows, (1,)) or ((0, 0, rows.shape[0]),):
        part_x, part_error, part_mean, part_inverse = (
            cut(t, 2, piece) for t in (rows, row_error, row_mean, row_inverse)
        )
        errors = _error_of_rows(arithmetic, part_x, part_error, part_mean, part_inverse, eps)
        if errors is None:
            return None
        for whole, part in zip((total, mean_error, inverse_error), errors, strict=True):
            whole.narrow(*piece).copy_(part)
    return total.reshape(x.shape), mean_error.reshape(mean.shape), inverse_error.reshape(inverse.shape)


def _error_of_rows(
    arithmetic: Arithmetic, x: Tensor, error: Tensor | None, mean: Tensor, inverse: Tensor, eps: float
) -> Errors | None:
    """For rows of shape (R, n), with d = x - mean, v = mean(d^2), s = v + eps, r = 1 / sqrt(s), y = d r:

    e_mean = mean(e) + g u mean(|x| + e) + u |mean| + omega   e_d = e + e_mean + u max(|x|, |mean|, |d|) + omega
    p = mean(2|d| e_d + e_d^2)                                e_v = p + (g + 2) u (v + p) + 2 omega
    e_s = e_v + e_eps + u s + omega
    e_r = r (1 - t) / (t + sqrt(t)) + 4 u r + omega           t = max(s - e_s, eps (1 - 2u)) / s, since v >= 0
    e_y = |d| (e_r + u r) + (r + e_r) e_d + omega
    """
    u, omega, terms = arithmetic.unit_roundoff, arithmetic.underflow, x.shape[1]
    growth = arithmetic.sum_share(terms)
    size = x.abs()
    total_size = size.sum(1, keepdim=True)
    mean_error = (total_size * (growth / terms)).add_(mean.abs(), alpha=u).add_(omega)
    if error is not None:
        mean_error.add_(error.mean(1, keepdim=True), alpha=1.0 + growth)
    deviation = (x - mean).abs_()
    torch.maximum(size, mean.abs(), out=size)
    deviation_error = torch.maximum(size, deviation, out=size).mul_(u).add_(mean_error + omega)
    if error is not None:
        deviation_error.add_(error)
    squares, products, error_squares = (
        torch.linalg.vecdot(a, b).unsqueeze(1)
        for a, b in ((deviation, deviation), (deviation, deviation_error), (deviation_error, deviation_error))
    )
    spread = squares / terms
    propagated = (products * 2.0).add_(error_squares) / terms
    spread_error = propagated.add(spread + propagated, alpha=growth + 2.0 * u)
    shifted = spread + eps
    shifted_error = spread_error.add_(shifted, alpha=u).add_(3.0 * omega + arithmetic.constant_error(eps))
    lowest = (shifted - shifted_error).clamp_(min=eps * (1.0 - 2.0 * u))
    reach = float(torch.maximum(total_size, squares + terms * shifted_error).max())
    if not (reach <= arithmetic.overflow and float(lowest.min()) >= omega):  # NaN compares false
        return None
    ratio = lowest / shifted
    inverse_error = ((shifted - lowest) / shifted / (ratio + ratio.sqrt())).mul_(inverse)
    inverse_error.add_(inverse, alpha=4.0 * u).add_(omega)
    result = deviation.mul_(inverse_error + u * inverse).add_(omega)
    result.addcmul_(deviation_error, inverse + inverse_error)
    return (result, mean_error, inverse_error) if float(result.max()) <= arithmetic.overflow else None
