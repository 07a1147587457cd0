"""On a CUDA device the guards catch what they catch on the CPU, and right kernels pass them.

The ways that take a process of their own (sticky errors, running out of memory, hangs) are in tests/hostile.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import gpuemu
from gpuemu.model.record import Report
from gpuemu.model.verdict import Status

pytestmark = pytest.mark.gpu
Tensor = torch.Tensor

TRITON = """
import torch, triton, triton.language as tl

@triton.jit
def kernel(x, y, n, excess, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.maximum(tl.load(x + at, mask=at < n, other=0.0), 0.0), mask=at < n + excess)

def launch(x, excess):
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel():
        kernel[(triton.cdiv(x.numel() + excess, 64),)](x, y, x.numel(), excess, BLOCK=64)
    return y

def relu(x):
    return launch(x, 0)

def relu_one_more(x):
    return launch(x, 1)

def relu_by_torch(x):
    launch(x, 0)
    return torch.relu(x)
"""


def check(function: Callable[..., object] | str, op: str = "relu", budget: int = 16) -> Report:
    return gpuemu.check(function, op, budget=budget, seed=3, device="cuda", store=False, shrink=False)


def kinds(report: Report) -> set[str]:
    return {str(record.verdict.kind) for record in report.failures}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "relu_kernels.py"
    path.write_text(TRITON)
    return path


def test_a_right_triton_kernel_passes(file: Path) -> None:
    report = check(f"{file}::relu", budget=32)
    assert report.status is Status.PASS, report.message


def test_a_store_one_past_the_output_is_seen(file: Path) -> None:
    assert "guard:poison" in kinds(check(f"{file}::relu_one_more"))


def test_a_kernel_whose_output_is_not_used_is_a_decoy(file: Path) -> None:
    assert kinds(check(f"{file}::relu_by_torch")) == {"guard:decoy"}


def test_memory_that_was_never_written_is_no_answer() -> None:
    report = check(torch.empty_like)
    assert report.status is Status.FAIL
    assert len(report.failures) >= len(report.records) - 2  # an empty output is right


def test_a_sum_into_uninitialised_memory_is_seen() -> None:
    def product(a: Tensor, b: Tensor) -> Tensor:
        return torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device).mul_(1.0).addmm_(a, b)

    assert check(product, "matmul").status is Status.FAIL


def test_a_changed_input_is_seen() -> None:
    def relu(x: Tensor) -> Tensor:
        result = torch.relu(x)
        x.mul_(0.5)
        return result

    assert "guard:mutation" in kinds(check(relu))


def test_an_output_that_is_the_input_is_seen() -> None:
    assert kinds(check(torch.relu_)) & {"guard:alias", "guard:mutation"}


def test_an_allowed_tf32_that_stays_allowed_is_seen() -> None:
    def product(a: Tensor, b: Tensor) -> Tensor:
        torch.backends.cuda.matmul.allow_tf32 = True
        return a @ b

    assert "guard:state" in kinds(check(product, "matmul"))
    assert not torch.backends.cuda.matmul.allow_tf32


def test_a_compiled_function_passes() -> None:
    report = check(torch.compile(torch.relu))
    assert report.status is Status.PASS, report.message


def test_an_answer_written_by_another_stream_later_is_seen() -> None:
    stream = torch.cuda.Stream()

    def relu(x: Tensor) -> Tensor:
        result = torch.zeros_like(x)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)  # about 25 ms
            torch.clamp(x, min=0.0, out=result)
        return result

    assert check(relu).status is Status.FAIL


def test_a_launch_on_the_default_stream_whatever_is_current_is_seen() -> None:
    def relu(x: Tensor) -> Tensor:
        result = torch.zeros_like(x)
        with torch.cuda.stream(torch.cuda.default_stream()):
            torch.clamp(x, min=0.0, out=result)
        return result

    assert "guard:late_work" in kinds(check(relu))


def test_a_stream_that_is_waited_for_passes() -> None:
    stream = torch.cuda.Stream()

    def relu(x: Tensor) -> Tensor:
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            result = torch.relu(x)
        torch.cuda.current_stream().wait_stream(stream)
        x.record_stream(stream)
        result.record_stream(torch.cuda.current_stream())
        return result

    report = check(relu)
    assert report.status is Status.PASS, report.message


def test_the_last_answer_given_again_is_seen() -> None:
    kept: dict[tuple[object, ...], Tensor] = {}

    def relu(x: Tensor) -> Tensor:
        key = (x.data_ptr(), x.shape, x.stride(), x.dtype)
        if key not in kept:
            kept[key] = torch.relu(x)
        return kept[key].clone()

    assert kinds(check(relu)) & {"guard:stale", "value"}
