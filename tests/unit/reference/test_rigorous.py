"""Rigorous bounds: never below the default ones, and proof against roundings that all go one way."""

from __future__ import annotations

import pytest
import torch

import gpuemu
from gpuemu.inputs.fill import make_inputs
from gpuemu.model.op import Dim, Op
from gpuemu.ops.registry import get_op
from gpuemu.planning.plan import make_plan
from gpuemu.reference.evaluate import evaluate


@pytest.mark.parametrize("name", ["softmax", "layernorm", "matmul", "attention", "cross_entropy", "gelu"])
def test_never_below_the_default_bound(name: str) -> None:
    op = get_op(name)
    for case in make_plan(op, budget=6, seed=3).cases:
        inputs, profile = make_inputs(op, case), op.contract.profile_for(case.dtype)
        usual, rigorous = (evaluate(op, case, inputs, profile, rigorous=flag) for flag in (False, True))
        for a, b in zip(usual.outputs, rigorous.outputs, strict=True):
            assert bool((b.bound >= a.bound * (1 - 1e-12)).all())


def test_a_sum_whose_roundings_conspire_passes() -> None:
    """K + 2 units for K terms: a running sum of equal terms errs by up to about K / 7 units (ORACLE.md 2.1),
    and one that rounds every step upwards by nearly K."""
    terms = 4096
    positive = Op(
        "total",
        {"x": gpuemu.Tensor("R N", low=1, high=2)},
        {"R": Dim(1, 2), "N": Dim(terms, terms)},
        lambda x: x.sum(-1),
        dtypes=["float32"],
    )

    def rounds_up(x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(x.shape[0], dtype=torch.float64)
        for column in x.double().unbind(-1):
            exact = total + column
            stored = exact.float()
            above = torch.nextafter(stored, torch.full_like(stored, torch.inf))
            total = torch.where(stored.double() < exact, above, stored).double()
        return total.float()

    options = {"budget": 2, "seed": 0, "store": False, "layouts": ["contiguous"]}
    assert not gpuemu.check(rounds_up, positive, **options).passed  # type: ignore[arg-type]
    report = gpuemu.check(rounds_up, positive, rigorous=True, **options)  # type: ignore[arg-type]
    assert report.passed, report.message
    assert report.run.rigorous
