"""Ops whose output is a choice, an order or a sample: judged by what stands behind it (ORACLE.md 2.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from gpuemu.model.op import Dim, Op, Recovered

Inputs = Mapping[str, torch.Tensor]
Outputs = tuple[torch.Tensor, ...]
Params = Mapping[str, Any]

# A row is one program's or one thread block's work, so more rows only add programs.
ROW_DIMS = {"R": Dim(1, 8192, batch=True), "N": Dim(1, 65536)}
SEEDS = [0, 20261201]
# Below this a kernel may flush to zero what it scales, in any arithmetic down to float16.
SMALLEST_SEEN = 2.0**-14


def argmax(x: torch.Tensor) -> torch.Tensor:
    """Index of the largest element of every row; NaN counts as the largest."""
    return torch.argmax(x, dim=-1)


def topk(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The k largest elements of every row in descending order, and their indices."""
    values, indices = torch.topk(x, k, dim=-1)
    return values, indices


def sort(x: torch.Tensor, descending: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Every row in order, and the indices that sort it; NaN counts as the largest."""
    values, indices = torch.sort(x, dim=-1, descending=descending)
    return values, indices


def dropout(x: torch.Tensor, p: float, seed: int, kept: torch.Tensor) -> torch.Tensor:
    """x / (1 - p) where kept, else 0 (Srivastava et al., JMLR 15, 2014, section 10)."""
    del seed  # what it means is the kernel's affair
    return torch.where(kept, x / (1.0 - p if p < 1.0 else 1.0), 0.0)


def find_kept(_inputs: Inputs, outputs: Outputs, _params: Params) -> torch.Tensor:
    """What was not dropped, as far as it can be seen: a zero is zero either way."""
    return outputs[0] != 0


def find_visible(inputs: Inputs, _outputs: Outputs, _params: Params) -> torch.Tensor:
    """Elements of which it can be seen whether they were dropped."""
    return inputs["x"].isfinite() & (inputs["x"].abs() > SMALLEST_SEEN)


def sample(logits: torch.Tensor, seed: int, choice: torch.Tensor) -> torch.Tensor:
    """One index per row, drawn with the probabilities softmax(logits)."""
    del logits, seed  # any choice is right; whether all together are, their frequencies tell
    return choice


def find_choice(_inputs: Inputs, outputs: Outputs, _params: Params) -> torch.Tensor:
    """The drawn indices."""
    return outputs[0]


def find_probabilities(inputs: Inputs, _outputs: Outputs, _params: Params) -> torch.Tensor:
    """softmax(logits) in float64."""
    return torch.softmax(inputs["logits"].double(), dim=-1)


OPS = (
    Op(
        "argmax",
        inputs={"x": "R N"},
        dims=ROW_DIMS,
        reference=argmax,
        family="decisions",
        doc="index of the largest element of every row; of equal elements, any",
    ),
    Op(
        "topk",
        inputs={"x": "R N"},
        dims={**ROW_DIMS, "N": Dim(8, 65536)},
        params={"k": [1, 2, 8]},
        reference=topk,
        family="decisions",
        doc="the k largest elements of every row in descending order, and their indices",
    ),
    Op(
        "sort",
        inputs={"x": "R N"},
        dims=ROW_DIMS,
        params={"descending": [False, True]},
        reference=sort,
        family="decisions",
        doc="every row in order, and the indices that sort it",
    ),
    Op(
        "dropout",
        inputs={"x": "R N"},
        dims=ROW_DIMS,
        params={"p": [0.5, 0.125, 0.1, 0.0, 1.0], "seed": SEEDS},
        reference=dropout,
        outputs=["R N"],
        recovered={"kept": Recovered(find_kept, rate="1 - p", among=find_visible)},
        family="decisions",
        doc="x / (1 - p) for elements kept at random with probability 1 - p, else 0; the seed decides",
    ),
    Op(
        "sample",
        inputs={"logits": "R V"},
        # Many rows, for a wrong distribution shows in frequencies alone.
        dims={"R": [2048, 4096], "V": Dim(2, 1024)},
        params={"seed": SEEDS},
        reference=sample,
        outputs=["R"],
        output_dtypes=["int64"],
        recovered={"choice": Recovered(find_choice, probabilities=find_probabilities)},
        family="decisions",
        doc="one index per row with the probabilities softmax(logits); the seed decides",
    ),
)
