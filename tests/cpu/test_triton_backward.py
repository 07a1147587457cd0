"""Triton kernels wrapped in a `torch.autograd.Function`, under `check --backward` on the interpreter."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = '''
import torch
import triton
import triton.language as tl


@triton.jit
def _forward_kernel(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * n_cols
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + start + cols, mask=mask, other=float("-inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    y = numerator / tl.sum(numerator, axis=0)
    tl.store(y_ptr + start + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _backward_kernel(x_ptr, upstream_ptr, grad_ptr, n_cols, KEPT: tl.constexpr, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * n_cols
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + start + cols, mask=mask, other=float("-inf")).to(tl.float32)
    upstream = tl.load(upstream_ptr + start + cols, mask=mask, other=0.0).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    y = numerator / tl.sum(numerator, axis=0)
    along = tl.sum(tl.where(cols < KEPT, y * upstream, 0.0), axis=0)
    tl.store(grad_ptr + start + cols, (y * (upstream - along)).to(grad_ptr.dtype.element_ty), mask=mask)


class _Softmax(torch.autograd.Function):
    """Softmax over the last dim; backward recomputes it from its input. fault: what the backward does wrong."""

    @staticmethod
    def forward(ctx, x, fault):
        ctx.fault = fault
        x = x.contiguous()
        ctx.save_for_backward(x)
        y = torch.empty_like(x)
        n_cols = x.shape[-1]
        _forward_kernel[(x.numel() // n_cols,)](x, y, n_cols, BLOCK=triton.next_power_of_2(n_cols))
        return y

    @staticmethod
    def backward(ctx, upstream):
        (x,) = ctx.saved_tensors
        n_cols = x.shape[-1]
        kept = {"": n_cols, "no sum": 0, "last column dropped": n_cols - 1}.get(ctx.fault, n_cols)
        if ctx.fault != "strides ignored":
            upstream = upstream.contiguous()
        gradient = torch.empty_like(x)
        _backward_kernel[(x.numel() // n_cols,)](
            x, upstream, gradient, n_cols, KEPT=kept, BLOCK=triton.next_power_of_2(n_cols)
        )
        return gradient, None


def right(x):
    return _Softmax.apply(x, "")


def no_sum(x):
    return _Softmax.apply(x, "no sum")


def last_column_dropped(x):
    return _Softmax.apply(x, "last column dropped")


def strides_ignored(x):
    return _Softmax.apply(x, "strides ignored")
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kernels")
    (path / "softmax.py").write_text(SOURCE)
    return path


def check(folder: Path, function: str, *flags: str) -> tuple[int, dict[str, object]]:
    """Exit code and JSON document of `gpuemu check`, in a process of its own."""
    arguments = ("softmax.py::" + function, "--op", "softmax", "--budget", "16", "--seed", "0", "--no-store")
    command = [sys.executable, "-m", "gpuemu", "check", *arguments, "--json", *flags]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert result.stdout, result.stderr
    return result.returncode, json.loads(result.stdout)


def test_a_right_backward_passes(folder: Path) -> None:
    code, report = check(folder, "right", "--backward")
    assert (code, report["status"]) == (0, "pass"), report["message"]
    assert {record["verdict"]["status"] for record in report["records"]} == {"pass"}  # type: ignore[attr-defined]


@pytest.mark.parametrize("fault", ["no_sum", "last_column_dropped", "strides_ignored"])
def test_a_wrong_backward_fails_behind_a_right_forward(folder: Path, fault: str) -> None:
    assert check(folder, fault)[0] == 0
    code, report = check(folder, fault, "--backward")
    assert (code, report["status"]) == (1, "fail"), report["message"]
