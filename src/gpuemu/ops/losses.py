"""Losses over classes: `logits: N V`, `target: N`."""

from __future__ import annotations

import torch
from torch.nn import functional

from gpuemu.model.op import Dim, Op, Tensor

IGNORE_INDEX = -100
# A row of logits is one program's or one thread block's work, so more rows only add programs.
CLASS_DIMS = {"N": Dim(1, 8192, batch=True), "V": Dim(1, 131072)}
CLASS_INPUTS: dict[str, str | Tensor] = {
    "logits": "N V",
    "target": Tensor("N", dtype="int64", low=0, high="V", sentinel="ignore_index"),
}


def cross_entropy(
    logits: torch.Tensor, target: torch.Tensor, ignore_index: int, reduction: str, label_smoothing: float
) -> torch.Tensor:
    """logsumexp(x) - x[target] per row, smoothed (Szegedy et al., arXiv 1512.00567, section 7), then reduced.

    Rows whose target is `ignore_index` count 0, also in the number that a mean divides by.
    """
    return functional.cross_entropy(
        logits, target, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )


OPS = (
    Op(
        "cross_entropy",
        inputs=CLASS_INPUTS,
        dims=CLASS_DIMS,
        # 1/8 is exact in every dtype, so that the parameter itself adds no rounding.
        params={
            "ignore_index": [IGNORE_INDEX],
            "reduction": ["mean", "sum", "none"],
            "label_smoothing": [0.0, 0.125],
        },
        reference=cross_entropy,
        doc="logsumexp(logits) - logits[target] per row, smoothed and reduced; ignored targets count 0",
    ),
)
