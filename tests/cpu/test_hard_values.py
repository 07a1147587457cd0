"""The published hard inputs on the corpus: no false alarm, and which wrong kernels eight cases find.

Plans are those of `gpuemu check KERNEL --values CLASS --budget 8`. `benchmarks/hard_inputs.py` counts over more
seeds; its record, `studies/hard-inputs/cpu`, says how many plans find each kernel.
"""

from __future__ import annotations

import pytest
import torch

from gpuemu.campaign import Campaign
from gpuemu.candidates import loader
from gpuemu.checking import make_campaign
from gpuemu.corpus.catalogue import CorpusKernel, find_kernel, load_catalogue
from gpuemu.model.case import Plan
from gpuemu.model.verdict import Flag, Status, Verdict
from gpuemu.ops.registry import get_op
from gpuemu.planning.plan import make_plan

CASES = 8
SEED = 100
FOUND_SEEDS = range(1, 3)
CLASSES = ("adversarial", "nan_injected", "sparse_adversarial")
TWINS = [kernel for kernel in load_catalogue() if kernel.role == "buggy"]
CONTROLS = [kernel for kernel in load_catalogue() if kernel.role == "control"]


def make(kernel: CorpusKernel) -> Campaign:
    candidate = loader.load(f"{kernel.path}::{kernel.function}", "cpu")
    return make_campaign(get_op(kernel.op), candidate, "cpu")


def plan_of(kernel: CorpusKernel, value_class: str, seed: int = SEED) -> Plan:
    blocks = loader.read_blocks(f"{kernel.path}::{kernel.function}")
    return make_plan(
        get_op(kernel.op), budget=CASES, seed=seed, value_classes=[value_class], block_sizes=blocks
    )


def is_reported(verdict: Verdict) -> bool:
    return verdict.status is Status.FAIL or Flag.NAN_SEMANTICS in verdict.flags


def differ_visibly(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether some element is finite in one alone, or off by more than 8 units in the last place."""
    tolerance = 8.0 * torch.finfo(a.dtype).eps
    x, y = a.double(), b.double()
    both = x.isfinite() & y.isfinite()
    off = (x - y).abs() > tolerance * torch.maximum(x.abs(), y.abs()) + 1e-30
    return bool(((x.isfinite() != y.isfinite()) | (both & off)).any())


@pytest.mark.slow
@pytest.mark.parametrize("value_class", CLASSES)
@pytest.mark.parametrize("kernel", CONTROLS, ids=lambda kernel: kernel.name)
def test_controls_raise_no_false_alarm(kernel: CorpusKernel, value_class: str) -> None:
    campaign = make(kernel)
    verdicts = [record.verdict for record in campaign.run(plan_of(kernel, value_class))]
    assert {v.status for v in verdicts} <= {Status.PASS, Status.INCONCLUSIVE}


@pytest.mark.slow
@pytest.mark.parametrize("seed", FOUND_SEEDS)
@pytest.mark.parametrize("value_class", CLASSES)
@pytest.mark.parametrize("twin", TWINS, ids=lambda kernel: kernel.name)
def test_eight_cases_find_every_buggy_kernel(twin: CorpusKernel, value_class: str, seed: int) -> None:
    campaign = make(twin)
    verdicts = (record.verdict for record in campaign.run(plan_of(twin, value_class, seed)))
    assert any(verdict.status is Status.FAIL for verdict in verdicts)


@pytest.mark.slow
@pytest.mark.parametrize("value_class", CLASSES)
@pytest.mark.parametrize("twin", TWINS, ids=lambda kernel: kernel.name)
def test_every_visible_fault_is_reported(twin: CorpusKernel, value_class: str) -> None:
    """A case fails, or reports a swallowed NaN, wherever the output visibly differs from the control's."""
    wrong, right = make(twin), make(find_kernel(twin.control or ""))
    for case in plan_of(twin, value_class).cases:
        verdict = wrong.run_case(case).verdict
        outputs = (wrong.observe(case).outputs[0], right.observe(case).outputs[0])
        assert is_reported(verdict) or not differ_visibly(*outputs), case.summary()


def test_a_row_with_a_nan_is_judged_whatever_else_overflows() -> None:
    control = find_kernel("l2norm_triton")
    verdicts = [record.verdict for record in make(control).run(plan_of(control, "adversarial"))]
    judged = [v for v in verdicts if v.status is Status.PASS]
    assert len(judged) >= CASES // 2
