"""On a CUDA device: inputs arrive unchanged, the bound agrees with the CPU, verdicts are the same."""

from __future__ import annotations

import pytest
import torch

import gpuemu
from gpuemu.inputs import fill
from gpuemu.model.op import LAYOUTS, Op
from gpuemu.model.verdict import Status
from gpuemu.ops.registry import get_op
from gpuemu.planning.plan import make_plan
from gpuemu.reference.evaluate import evaluate

pytestmark = pytest.mark.gpu
OPS = ("softmax", "layernorm", "rmsnorm", "l2norm", "gelu", "silu", "elu", "tanh", "matmul", "attention")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_inputs_keep_bytes_strides_and_offset(layout: str, dtype: str) -> None:
    op = get_op("matmul")
    case = make_plan(op, budget=1, seed=0, dtypes=[dtype]).cases[0]
    case = case.with_changes(layouts=dict.fromkeys(op.inputs, layout))
    inputs = fill.make_inputs(op, case)
    moved = fill.to_device(inputs, "cuda")
    assert all(tensor.is_cuda for tensor in moved.values())
    assert fill.inputs_digest(moved) == fill.inputs_digest(inputs)
    assert fill.inputs_digest(fill.clone(moved)) == fill.inputs_digest(inputs)


@pytest.mark.parametrize("name", OPS)
def test_the_bound_on_the_device_agrees_with_the_cpu(name: str) -> None:
    op = get_op(name)
    for case in make_plan(op, budget=12, seed=1).cases:
        inputs = fill.make_inputs(op, case)
        on_cpu = evaluate(op, case, inputs, "P1").outputs[0]
        on_device = evaluate(op, case, fill.to_device(inputs, "cuda"), "P1").outputs[0]
        value, bound = on_device.value.cpu(), on_device.bound.cpu()
        assert torch.equal(value.isnan(), on_cpu.value.isnan())
        # Values differ by float64 rounding only, far inside the bound; so do the bounds themselves.
        finite = on_cpu.bound.isfinite() & bound.isfinite()
        assert (finite == on_cpu.bound.isfinite()).float().mean() > 0.999
        slack = 1e-3 * on_cpu.bound + 1e-300
        agrees = (value == on_cpu.value) | value.isnan() | ((value - on_cpu.value).abs() <= slack)
        assert bool((agrees | ~finite).all())
        # Where float64 rounds a result to a number of float32 on one of them only, that one counts it as exact.
        room = 1e-2 * on_cpu.bound + 2.0**-23 * on_cpu.value.abs().nan_to_num(posinf=0.0) + 1e-300
        assert bool((((bound - on_cpu.bound).abs() <= room) | ~finite).all())


@pytest.mark.parametrize(
    ("kernel", "status"),
    [
        ("softmax_triton", Status.PASS),
        ("matmul_triton", Status.PASS),
        ("flash_attention_triton", Status.PASS),
        ("softmax_triton_buggy", Status.FAIL),
        ("matmul_triton_buggy", Status.FAIL),
    ],
)
def test_verdicts_on_the_device(kernel: str, status: Status) -> None:
    report = gpuemu.check(kernel, budget=24, seed=0, device="cuda", store=False, shrink=False)
    assert report.status is status, report.message


def test_tf32_is_told_apart() -> None:
    op = Op("matmul_any", get_op("matmul").inputs, dict.fromkeys("MKN", (64, 256)), lambda a, b: a @ b)

    def tf32(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        allowed = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            return a @ b
        finally:
            torch.backends.cuda.matmul.allow_tf32 = allowed

    options = {
        "budget": 12,
        "seed": 0,
        "device": "cuda",
        "dtypes": ["float32"],
        "store": False,
        "shrink": False,
    }
    assert gpuemu.check(lambda a, b: a @ b, op, **options).status is Status.PASS
    report = gpuemu.check(tf32, op, **options)
    assert {record.verdict.looser_profile for record in report.failures} == {"PT"}


def test_an_output_on_the_wrong_device_fails() -> None:
    report = gpuemu.check(lambda x: torch.relu(x).cpu(), "relu", budget=2, seed=0, device="cuda", store=False)
    assert report.status is Status.FAIL
