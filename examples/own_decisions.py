"""Ops of one's own that have no single right answer: one decides at random, one is judged by a residual.

gpuemu check examples/own_decisions.py::drop_path --op examples/own_decisions.py::DROP_PATH
gpuemu check examples/own_decisions.py::invert --op examples/own_decisions.py::INVERSE
"""

from __future__ import annotations

from typing import Any

import torch

from gpuemu.model.op import Contract, Dim, Op, Recovered


def drop_path(x: torch.Tensor, p: float) -> torch.Tensor:
    """Whole rows kept with probability 1 - p, and scaled to keep their mean."""
    kept = torch.rand(x.shape[0], 1, device=x.device) >= p
    return torch.where(kept, x.float() / (1.0 - p), 0.0).to(x.dtype)


DROP_PATH = Op(
    "drop_path",
    inputs={"x": "R N"},
    dims={"R": [64, 256], "N": Dim(2, 512)},
    params={"p": [0.25, 0.5]},
    value_classes=["uniform", "bell"],  # rows that are not zero, so that it can be seen which were dropped
    outputs=["R N"],
    # The reference is told what was dropped: what is left is ordinary arithmetic.
    reference=lambda x, p, kept: torch.where(kept, x / (1.0 - p), 0.0),
    recovered={
        "kept": Recovered(
            lambda _inputs, outputs, _params: (outputs[0] != 0).any(-1, keepdim=True), rate="1 - p"
        )
    },
    contract=Contract(deterministic=False),
)


def invert(a: torch.Tensor) -> torch.Tensor:
    """The inverse of a square matrix."""
    return torch.linalg.inv(a)


def inverse_residual(inputs: Any, outputs: Any, _params: Any) -> torch.Tensor:
    """|I - A X| / (n eps |A| |X|) (LAPACK xGET03)."""
    a, x = inputs["a"], outputs[0]
    distance = torch.linalg.matrix_norm(torch.eye(len(a), dtype=a.dtype, device=a.device) - a @ x, 1)
    size = torch.linalg.matrix_norm(a, 1) * torch.linalg.matrix_norm(x, 1)
    return distance / (len(a) * 2.0**-23 * size)


INVERSE = Op(
    "inverse",
    inputs={"a": "N N"},
    dims={"N": Dim(1, 128)},
    dtypes=["float32"],
    value_classes=["uniform", "bell"],
    outputs=["N N"],
    residual=inverse_residual,
)
