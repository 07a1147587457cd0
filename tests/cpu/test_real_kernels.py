"""Kernels from liger-kernel and conch-triton-kernels in Triton's interpreter, through `gpuemu.check`."""

from __future__ import annotations

import pytest

import gpuemu
from gpuemu.model.record import Report
from gpuemu.studies.real_kernels import run_study
from gpuemu.studies.real_targets import REAL_KERNELS

pytest.importorskip("liger_kernel", reason="the development group holds it")
pytest.importorskip("conch", reason="the development group holds it")
TARGETS = {kernel.op: kernel.local_target for kernel in REAL_KERNELS}
# Wrong on this tier as on an H200; studies/real-kernels says why.
WRONG = {
    "liger.cross_entropy_inference": {"guard:mutation"},
    "liger.cross_entropy_gradient": {"layout"},
    "liger.rope": {"value"},
    # Sums of lanes that a masked load leaves undefined (rms_norm.py:43): 0 on NVIDIA, no promise of Triton's.
    "conch.rms_norm": {"nonfinite"},
    "conch.fused_add_rms_norm": {"nonfinite"},
    "conch.gemma_rms_norm": {"layout", "nonfinite", "value"},
    "conch.silu_and_mul": {"layout"},
    "conch.gelu_tanh_and_mul": {"layout", "error"},
    "conch.rotary_embedding": {"layout"},
}


def check(op: str, budget: int, **restrictions: object) -> Report:
    return gpuemu.check(TARGETS[op], op, budget=budget, seed=0, store=False, shrink=False, **restrictions)  # type: ignore[arg-type]


def kinds(report: Report) -> set[str]:
    return {str(record.verdict.kind or record.verdict.status) for record in report.failures}


@pytest.mark.parametrize("op", ["liger.rms_norm", "liger.layer_norm", "conch.silu_and_mul"])
def test_a_kernel_passes_on_contiguous_inputs(op: str) -> None:
    report = check(op, budget=8, layouts=["contiguous"])
    assert report.passed, report.message


def test_logits_of_ignored_tokens_are_erased_though_no_gradient_is_asked_for() -> None:
    report = check("liger.cross_entropy_inference", budget=1)
    assert kinds(report) == {"guard:mutation"}


def test_a_kernel_without_sixteen_bit_tanh_is_an_error_that_names_its_line() -> None:
    report = check("conch.gelu_tanh_and_mul", budget=2, dtypes=["float16"])
    assert kinds(report) == {"error"}
    assert report.failures[0].verdict.message.startswith(
        "KeyError: (triton.language.float16) at gelu_tanh_and_mul.py:"
    )


@pytest.mark.slow
@pytest.mark.parametrize("op", TARGETS)
def test_each_kernel_gives_what_was_found(op: str) -> None:
    report = check(op, budget=32)
    assert kinds(report) == WRONG.get(op, set())
    assert report.passed == (op not in WRONG), report.message


@pytest.mark.slow
def test_the_study_explains_every_finding() -> None:
    document = run_study(seed=0)
    assert set(document["failed"]) <= WRONG.keys()
    assert "unexplained" not in document["origins"]
    assert not document["unavailable"]
