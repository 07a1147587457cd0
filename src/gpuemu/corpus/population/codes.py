"""Quantisers and factorisations: controls of other formulas, and the usual mistakes."""

from __future__ import annotations

from collections.abc import Callable

import torch

from gpuemu.corpus.population.implementation import Function, Implementation
from gpuemu.corpus.population.selections import wrong

Tensor = torch.Tensor
Pair = tuple[Tensor, Tensor]
Round = Callable[[Tensor], Tensor]
BLOCK = 32
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def scale_of(x: Tensor, largest: float) -> Tensor:
    magnitude = x.abs().amax(-1, keepdim=True)
    return torch.where(magnitude == 0, 1.0, magnitude / largest)


def divide(x: Tensor, scale: Tensor) -> Tensor:
    return x / scale


def multiply(x: Tensor, scale: Tensor) -> Tensor:
    return x * (1.0 / scale)


def half_up(x: Tensor) -> Tensor:
    return torch.floor(x + 0.5)


def make_int8(quotient: Function, rounding: Round = torch.round, largest: float = 127.0) -> Function:
    """A quantiser of rows to int8."""

    def call(x: Tensor) -> Pair:
        x = x.float()
        scale = scale_of(x, largest)
        return rounding(quotient(x, scale)).clamp(-128, 127).to(torch.int8), scale

    return call


def int8_coarse_scale(x: Tensor) -> Pair:
    scale = scale_of(x.float(), 127.0)
    return torch.round(x.float() / scale.bfloat16()).clamp(-128, 127).to(torch.int8), scale


def int8_of_tensor(x: Tensor) -> Pair:
    scale = scale_of(x.float().reshape(1, -1), 127.0).expand(x.shape[0], 1).contiguous()
    return torch.round(x.float() / scale).to(torch.int8), scale


def make_static(quotient: Function, rounding: Round = torch.round, lowest: int = -128) -> Function:
    """A quantiser to int8 by a given scale."""

    def call(x: Tensor, scale: Tensor) -> Tensor:
        return rounding(quotient(x.float(), scale)).clamp(lowest, 127).to(torch.int8)

    return call


def static_wrapping(x: Tensor, scale: Tensor) -> Tensor:
    codes = torch.round(x.float() / scale).nan_to_num().clamp(-(2.0**30), 2.0**30).to(torch.int32)
    return ((codes + 128) % 256 - 128).to(torch.int8)


def make_blocks(quotient: Function, shift: int = 0) -> Function:
    """A quantiser of blocks of 32; shift: takes the scale of a block that many places away."""

    def call(x: Tensor) -> Pair:
        blocks = x.float().reshape(x.shape[0], -1, BLOCK)
        scale = scale_of(blocks, 127.0)
        codes = torch.round(quotient(blocks, scale.roll(shift, -2))).clamp(-127, 127)
        return codes.to(torch.int8).reshape(x.shape), scale.squeeze(-1)

    return call


def make_int4(quotient: Function, low: int = 0, sign: int = 15, rounding: Round = torch.round) -> Function:
    """A quantiser to packed 4-bit codes; low: which of two neighbours goes to the low half."""

    def call(x: Tensor) -> Pair:
        x = x.float()
        scale = scale_of(x, 7.0)
        codes = rounding(quotient(x, scale)).to(torch.int32).reshape(x.shape[0], -1, 2) & sign
        return (codes[..., low] + codes[..., 1 - low] * 16).to(torch.uint8), scale

    return call


def make_fp8(
    dtype: torch.dtype, largest: float, quotient: Function, cut: int = 0, clamp: bool = True
) -> Function:
    """A quantiser of rows to an 8-bit float; cut: significand bits of float32 cut off before the rounding."""

    def call(x: Tensor) -> Pair:
        x = x.float()
        scale = scale_of(x, largest)
        y = quotient(x, scale)
        if cut:
            y = (y.contiguous().view(torch.int32) & ~((1 << cut) - 1)).view(torch.float32)
        limit = torch.finfo(dtype).max
        return (y.clamp(-limit, limit) if clamp else y).to(dtype), scale

    return call


def orthogonalise(a: Tensor, passes: int) -> Pair:
    """Classical Gram-Schmidt; twice is enough for orthonormality (Giraud et al., Numer. Math. 101, 2005).

    A column that depends on those before is replaced by a unit vector, of which one at least does not.
    """
    q, r = torch.zeros_like(a), torch.zeros_like(a[: a.shape[1]])
    for j in range(a.shape[1]):
        column, size = a[:, j].clone(), a[:, j].norm()
        for _ in range(passes):
            part = q[:, :j].T @ column
            column -= q[:, :j] @ part
            r[:j, j] += part
        if bool(column.norm() > size * 1e-5) and bool(size > 0):
            r[j, j] = column.norm()
            q[:, j] = column / r[j, j]
        else:
            q[:, j] = _new_direction(q[:, :j])
    return q, r


def _new_direction(q: Tensor) -> Tensor:
    """A unit vector orthogonal to orthonormal columns: the unit vector furthest from them, made so twice."""
    units = torch.eye(q.shape[0], dtype=q.dtype, device=q.device)
    column = units[:, (q * q).sum(1).argmin()]
    for _ in range(2):
        column = column - q @ (q.T @ column)
        column = column / column.norm()
    return column


def qr_gram(a: Tensor) -> Pair:
    """Q from a's Gram matrix, whose condition is that of a squared."""
    gram = a.T @ a
    r = torch.linalg.cholesky_ex(gram + 1e-7 * gram.diagonal().amax() * torch.eye(len(gram), device=a.device))[
        0
    ]
    return a @ torch.linalg.pinv(r.T), r.T.contiguous()


def qr_scaled(a: Tensor) -> Pair:
    q, r = torch.linalg.qr(a)
    return q * (1 + 1e-4), r


def qr_full_r(a: Tensor) -> Pair:
    q, r = torch.linalg.qr(a)
    return q, r + r.abs().amax() * 1e-3 * torch.ones_like(r).tril(-1)


def eigh_from_upper(a: Tensor) -> Pair:
    """The eigenvalues of the symmetric matrix written out in full."""
    full = a.tril() + a.tril(-1).T
    w, v = torch.linalg.eigh(full, UPLO="U")
    return w, v


def eigh_descending(a: Tensor) -> Pair:
    w, v = torch.linalg.eigh(a)
    return w.flip(0), v.flip(1)


def eigh_other_triangle(a: Tensor) -> Pair:
    w, v = torch.linalg.eigh(a, UPLO="U")
    return w, v


def eigh_transposed(a: Tensor) -> Pair:
    w, v = torch.linalg.eigh(a)
    return w, v.T.contiguous()


def solve_by_qr(a: Tensor, b: Tensor) -> Tensor:
    q, r = torch.linalg.qr(a)
    return torch.linalg.solve_triangular(r, q.T @ b, upper=True)


def solve_coarse(a: Tensor, b: Tensor) -> Tensor:
    return torch.linalg.solve(a.bfloat16().float(), b)


def _quantisers(op: str, make: Callable[[Function], Function]) -> tuple[Implementation, ...]:
    return Implementation(op, "divide", make(divide)), Implementation(op, "reciprocal", make(multiply))


def _fp8(op: str, dtype: torch.dtype, largest: float, cut: int) -> tuple[Implementation, ...]:
    return (
        *_quantisers(op, lambda quotient: make_fp8(dtype, largest, quotient)),
        wrong(op, "truncated", make_fp8(dtype, largest, divide, cut), "H", "cuts bits off instead of rounding"),
        wrong(op, "scale", make_fp8(dtype, largest / 2.0, divide), "C", "half the format's range"),
    )


IMPLEMENTATIONS = (
    *_quantisers("quantise_int8", make_int8),
    Implementation("quantise_int8", "half_up", make_int8(divide, half_up)),
    wrong("quantise_int8", "truncated", make_int8(divide, torch.trunc), "H", "cuts the fraction off"),
    wrong("quantise_int8", "coarse_scale", int8_coarse_scale, "H", "divides by the scale in bfloat16"),
    wrong("quantise_int8", "of_tensor", int8_of_tensor, "C", "one scale for all rows"),
    wrong("quantise_int8", "by_128", make_int8(divide, largest=128.0), "C", "max |x| / 128"),
    *_quantisers("quantise_int8_static", make_static),
    wrong("quantise_int8_static", "symmetric", make_static(divide, lowest=-127), "C", "clamps at -127"),
    wrong("quantise_int8_static", "truncated", make_static(divide, torch.trunc), "H", "cuts the fraction off"),
    wrong("quantise_int8_static", "wrapping", static_wrapping, "C", "wraps instead of clamping"),
    *_quantisers("quantise_int8_blocks", make_blocks),
    wrong("quantise_int8_blocks", "shifted", make_blocks(divide, 1), "B", "the scale of the block before"),
    *_quantisers("quantise_int4", make_int4),
    wrong("quantise_int4", "swapped", make_int4(divide, low=1), "C", "the halves of a byte exchanged"),
    wrong("quantise_int4", "unsigned", make_int4(divide, sign=7), "C", "the sign bit lost"),
    wrong("quantise_int4", "truncated", make_int4(divide, rounding=torch.trunc), "H", "cuts the fraction off"),
    *_fp8("quantise_fp8", E4M3, 448.0, 20),
    *_fp8("quantise_fp8_e5m2", E5M2, 57344.0, 21),
    Implementation("qr", "eager", lambda a: tuple(torch.linalg.qr(a))),
    Implementation("qr", "gram_schmidt_twice", lambda a: orthogonalise(a, 2), devices=("cpu",)),
    wrong("qr", "gram_schmidt", lambda a: orthogonalise(a, 1), "H", "one pass of Gram-Schmidt"),
    wrong("qr", "gram", qr_gram, "H", "by the Cholesky factor of A'A"),
    wrong("qr", "scaled", qr_scaled, "C", "Q too long by 1e-4"),
    wrong("qr", "full_r", qr_full_r, "C", "R not triangular"),
    Implementation("eigh", "eager", lambda a: tuple(torch.linalg.eigh(a))),
    Implementation("eigh", "written_out", eigh_from_upper),
    wrong("eigh", "descending", eigh_descending, "C", "eigenvalues in descending order"),
    wrong("eigh", "other_triangle", eigh_other_triangle, "C", "reads the upper triangle"),
    wrong("eigh", "transposed", eigh_transposed, "C", "eigenvectors as rows"),
    Implementation("solve", "eager", torch.linalg.solve),
    Implementation("solve", "by_qr", solve_by_qr),
    wrong("solve", "coarse", solve_coarse, "H", "the matrix in bfloat16"),
    wrong("solve", "transposed", lambda a, b: torch.linalg.solve(a.T, b), "C", "solves with A'"),
)
