"""Backward passes from end to end: eager gradients of every op pass, faults of gradient kernels are found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

import gpuemu
from gpuemu.model.contract import DEFAULT_LAYOUTS
from gpuemu.model.record import BACKWARD_OF
from gpuemu.model.verdict import Status
from gpuemu.ops.registry import get_op, load_ops
from gpuemu.replay import replay

Tensor = torch.Tensor
PLAIN: dict[str, Any] = {"seed": 3, "store": False, "shrink": False}
# Decisions and codes are steps; factorisations have no reference; products follow below.
WITHOUT_GRADIENT = ("decisions", "quantisation", "factorisations", "linear")
NAMES = tuple(name for name, op in load_ops().items() if op.family not in WITHOUT_GRADIENT)
# torch 2.13's bfloat16 products on the CPU read the gap after a row of odd length, and 0 times its NaN is NaN.
WITHOUT_GAPS = tuple(layout for layout in DEFAULT_LAYOUTS if layout != "row_gap")


@pytest.mark.parametrize("name", [*NAMES, "matmul"])
def test_eager_gradients_pass(name: str) -> None:
    """In float32 under the op's own profile; in 16 bits, eager torch rounds every intermediate to them."""
    op = get_op(name)
    for dtypes, profile in ((["float32"], None), (["float16", "bfloat16"], "P2")):
        layouts = WITHOUT_GAPS if profile else None
        report = gpuemu.check(
            op.reference, op, backward=True, budget=8, dtypes=dtypes, profile=profile, layouts=layouts, **PLAIN
        )
        assert not report.failures, report.message
        assert Status.INVALID not in {record.verdict.status for record in report.records}, report.message
        assert not any(record.verdict.generic for record in report.records)


def layer_norm_backward(x: Tensor, w: Tensor, upstream: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    deviation = x - x.mean(-1, keepdim=True)
    inverse = torch.rsqrt(deviation.square().mean(-1, keepdim=True) + eps)
    normal, scaled = deviation * inverse, upstream * w
    along = normal * (scaled * normal).mean(-1, keepdim=True)
    by_x = inverse * (scaled - scaled.mean(-1, keepdim=True) - along)
    rows = tuple(range(x.dim() - 1))
    return by_x, (upstream * normal).sum(rows), upstream.sum(rows)


def right(x: Tensor, w: Tensor, b: Tensor, upstream: Tensor, eps: float) -> tuple[Tensor, ...]:
    return layer_norm_backward(x, w, upstream, eps)


def without_eps(x: Tensor, w: Tensor, b: Tensor, upstream: Tensor, eps: float) -> tuple[Tensor, ...]:
    return layer_norm_backward(x, w, upstream, 0.0)


def first_rows_weight_gradient(
    x: Tensor,
    w: Tensor,
    b: Tensor,
    upstream: Tensor,
    eps: float,
) -> tuple[Tensor, ...]:
    """Only the last batch's share of the weight's gradient is kept."""
    by_x, _, by_b = layer_norm_backward(x, w, upstream, eps)
    return by_x, layer_norm_backward(x[-1:], w, upstream[-1:], eps)[1], by_b


def without_mean(x: Tensor, w: Tensor, b: Tensor, upstream: Tensor, eps: float) -> tuple[Tensor, ...]:
    """The mean of the scaled upstream gradient is forgotten."""
    by_x, by_w, by_b = layer_norm_backward(x, w, upstream, eps)
    deviation = x - x.mean(-1, keepdim=True)
    inverse = torch.rsqrt(deviation.square().mean(-1, keepdim=True) + eps)
    return by_x + inverse * (upstream * w).mean(-1, keepdim=True), by_w, by_b


def cross_entropy_backward(
    logits: Tensor, target: Tensor, row_factor: Tensor, ignore_index: int, label_smoothing: float
) -> Tensor:
    counted = target != ignore_index
    chosen = functional.one_hot(torch.where(counted, target, 0), logits.shape[-1])
    smoothed = (1.0 - label_smoothing) * chosen + label_smoothing / logits.shape[-1]
    gradient = (functional.softmax(logits, -1) - smoothed) * row_factor.unsqueeze(-1)
    return torch.where(counted.unsqueeze(-1), gradient, 0.0)


def _row_factor(target: Tensor, upstream: Tensor, ignore_index: int, reduction: str) -> Tensor:
    counted = (target != ignore_index).sum()
    return upstream / counted if reduction == "mean" else upstream


def cross_entropy_right(
    logits: Tensor, target: Tensor, upstream: Tensor, ignore_index: int, reduction: str, label_smoothing: float
) -> Tensor:
    factor = _row_factor(target, upstream, ignore_index, reduction).expand(target.shape)
    return cross_entropy_backward(logits, target, factor, ignore_index, label_smoothing)


def cross_entropy_of_row_0(
    logits: Tensor, target: Tensor, upstream: Tensor, ignore_index: int, reduction: str, label_smoothing: float
) -> Tensor:
    """BUGS.md B9: row 0's upstream gradient is used for every row."""
    factor = _row_factor(target, upstream, ignore_index, reduction).reshape(-1)[:1].expand(target.shape)
    return cross_entropy_backward(logits, target, factor, ignore_index, label_smoothing)


def cross_entropy_by_all_rows(
    logits: Tensor, target: Tensor, upstream: Tensor, ignore_index: int, reduction: str, label_smoothing: float
) -> Tensor:
    """The mean's gradient is divided by all rows, not by the counted ones."""
    factor = (upstream / target.numel() if reduction == "mean" else upstream).expand(target.shape)
    return cross_entropy_backward(logits, target, factor, ignore_index, label_smoothing)


def cross_entropy_in_a_copy(
    logits: Tensor, target: Tensor, upstream: Tensor, ignore_index: int, reduction: str, label_smoothing: float
) -> Tensor:
    """The gradient goes into the logits' memory: of strided ones into a copy, and the logits are returned."""
    gradient = cross_entropy_right(logits, target, upstream, ignore_index, reduction, label_smoothing)
    return gradient if logits.is_contiguous() else logits.clone()


def softmax_backward(x: Tensor, upstream: Tensor) -> Tensor:
    y = functional.softmax(x, -1)
    return y * (upstream - (y * upstream).sum(-1, keepdim=True))


def softmax_of_row_major_upstream(x: Tensor, upstream: Tensor) -> Tensor:
    """The upstream gradient's memory is read row by row, whatever its strides; past its end there are zeros."""
    memory = torch.empty(0, dtype=x.dtype).set_(upstream.untyped_storage())[upstream.storage_offset() :]
    flat = torch.zeros(upstream.numel(), dtype=x.dtype)
    flat[: memory.numel()] = memory[: upstream.numel()]
    return softmax_backward(x, flat.view(upstream.shape))


RIGHT: dict[str, Callable[..., Any]] = {
    "softmax.backward": softmax_backward,
    "liger.layer_norm.backward": right,
    "cross_entropy.backward": cross_entropy_right,
}
MUTANTS: list[tuple[str, Callable[..., Any]]] = [
    ("liger.layer_norm.backward", without_eps),
    ("liger.layer_norm.backward", first_rows_weight_gradient),
    ("liger.layer_norm.backward", without_mean),
    ("cross_entropy.backward", cross_entropy_of_row_0),
    ("cross_entropy.backward", cross_entropy_by_all_rows),
    ("cross_entropy.backward", cross_entropy_in_a_copy),
    ("softmax.backward", softmax_of_row_major_upstream),
    ("softmax.backward", lambda x, upstream: softmax_backward(x, torch.ones_like(upstream))),
]


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_gradient_kernel_passes(name: str) -> None:
    report = gpuemu.check(RIGHT[name], name, budget=24, dtypes=["float32"], **PLAIN)
    assert report.passed, report.message


@pytest.mark.parametrize(("name", "kernel"), MUTANTS)
def test_a_wrong_gradient_kernel_is_found(name: str, kernel: Callable[..., Any]) -> None:
    report = gpuemu.check(kernel, name, budget=24, dtypes=["float32"], **PLAIN)
    assert report.status is Status.FAIL, report.message


def test_an_upstream_gradient_of_stride_0_alone_gives_away_who_reads_it_row_by_row() -> None:
    contiguous = gpuemu.check(
        softmax_of_row_major_upstream,
        "softmax.backward",
        budget=24,
        dtypes=["float32"],
        layouts=["contiguous"],
        **PLAIN,
    )
    assert contiguous.passed, contiguous.message
    report = gpuemu.check(
        softmax_of_row_major_upstream, "softmax.backward", budget=40, dtypes=["float32"],
        layouts=["contiguous", "expanded"], value_classes=["bell", "ones"], **PLAIN
    )  # fmt: skip
    assert {record.case.layouts["upstream"] for record in report.failures} == {"expanded"}


SOURCE = """
import gpuemu, torch

op = gpuemu.Op("scaled", inputs={"x": "B H", "w": "H"}, dims={"B": gpuemu.Dim(1, 8), "H": gpuemu.Dim(1, 64)},
               dtypes=["float32"], reference=lambda x, w: x * w)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, upstream):
        x, w = ctx.saved_tensors
        return upstream * w, (upstream * x)[0]


def gradients(x, w, upstream):
    return upstream * w, (upstream * x)[0]
"""


@pytest.mark.parametrize(
    ("kernel", "op", "backward"), [("Scaled", "op", True), ("gradients", "op.backward", False)]
)
def test_a_backward_run_is_replayed(tmp_path: Path, kernel: str, op: str, backward: bool) -> None:
    file = tmp_path / "kernels.py"
    file.write_text(SOURCE)
    store = tmp_path / "store"
    report = gpuemu.check(
        f"{file}::{kernel}", f"{file}::{op}", backward=backward, budget=8, seed=3, store=store, shrink=True
    )
    assert report.status is Status.FAIL
    assert report.run.op_target.startswith(BACKWARD_OF) is backward
    assert report.minimal is not None
    assert report.minimal.record.case.dims == {"B": 2, "H": 1}
    for record in (report.minimal.record, report.records[-1]):
        again = replay(report.run.id, record.case.id, store)
        assert again.same_inputs and again.same_outputs and again.same_verdict
