"""Factorisations and solutions, which have no single right answer: judged by LAPACK's test ratios."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from gpuemu.model.op import Dim, Op

Inputs = Mapping[str, torch.Tensor]
Outputs = tuple[torch.Tensor, ...]
Params = Mapping[str, Any]

EPS = 2.0**-23  # of float32, as LAPACK's slamch('P')
TINY = 2.0**-126
# Regular matrices: values that make no row or column a multiple of another but by chance.
REGULAR = ("uniform", "bell", "offset", "negative", "log_uniform")
FINITE = (*REGULAR, "small_integers", "impulse", "all_equal")


def norm(matrix: torch.Tensor) -> torch.Tensor:
    """The 1-norm, largest column sum of magnitudes, and at least the smallest normal number."""
    return matrix.abs().sum(dim=0).max().clamp(min=TINY)


def unit_distance(q: torch.Tensor) -> torch.Tensor:
    """|I - Q^T Q| / (m eps), by which LAPACK's xORT01 tests that columns are orthonormal."""
    identity = torch.eye(q.shape[1], dtype=q.dtype, device=q.device)
    return norm(identity - q.T @ q) / (q.shape[0] * EPS)


def qr_residual(inputs: Inputs, outputs: Outputs, _params: Params) -> dict[str, torch.Tensor]:
    """|A - QR| / (m eps |A|) and the orthogonality of Q (LAPACK xQRT01); R is zero below its diagonal."""
    a, (q, r) = inputs["a"], outputs
    return {
        "|A - QR| / (m eps |A|)": norm(a - q @ r) / (a.shape[0] * EPS * norm(a)),
        "|I - Q'Q| / (m eps)": unit_distance(q),
        "|R below its diagonal| / (eps |A|)": r.tril(-1).abs().sum() / (EPS * norm(a)),
    }


def eigh_residual(inputs: Inputs, outputs: Outputs, _params: Params) -> dict[str, torch.Tensor]:
    """|A V - V diag(w)| / (n eps |A|) and the orthogonality of V (LAPACK xSYT21); w must ascend."""
    lower, (w, v) = inputs["a"].tril(), outputs
    a = lower + lower.tril(-1).T
    descent = (w[:-1] - w[1:]).clamp(min=0.0).sum() if len(w) > 1 else torch.zeros(())
    return {
        "|AV - V diag(w)| / (n eps |A|)": norm(a @ v - v * w) / (a.shape[0] * EPS * norm(a)),
        "|I - V'V| / (n eps)": unit_distance(v),
        "descent of w / (eps |A|)": descent / (EPS * norm(a)),
    }


def solve_residual(inputs: Inputs, outputs: Outputs, _params: Params) -> torch.Tensor:
    """|b - A x| / (n eps |A| |x|) for every column of b (LAPACK xGET02)."""
    a, b, x = inputs["a"], inputs["b"], outputs[0]
    size = (norm(a) * x.abs().sum(dim=0)).clamp(min=TINY)
    return (b - a @ x).abs().sum(dim=0) / (a.shape[0] * EPS * size)


OPS = (
    Op(
        "qr",
        inputs={"a": "N+K-1 N"},  # at least as many rows as columns
        dims={"N": Dim(1, 256), "K": Dim(1, 257)},
        dtypes=["float32"],
        value_classes=FINITE,
        outputs=["N+K-1 N", "N N"],
        residual=qr_residual,
        family="factorisations",
        doc="a = Q R: orthonormal columns Q, of a's shape, and an upper triangular R (N N)",
    ),
    Op(
        "eigh",
        inputs={"a": "N N"},
        dims={"N": Dim(1, 256)},
        dtypes=["float32"],
        value_classes=FINITE,
        outputs=["N", "N N"],
        residual=eigh_residual,
        family="factorisations",
        doc="eigenvalues, ascending, and orthonormal eigenvectors of the symmetric matrix below a's diagonal",
    ),
    Op(
        "solve",
        inputs={"a": "N N", "b": "N K"},
        dims={"N": Dim(1, 256), "K": Dim(1, 16)},
        dtypes=["float32"],
        value_classes=REGULAR,
        outputs=["N K"],
        residual=solve_residual,
        family="factorisations",
        doc="x with a x = b",
    ),
)
