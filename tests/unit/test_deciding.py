"""Ops whose answer depends on what the candidate returned, from case to record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from gpuemu.candidates import loader
from gpuemu.checking import check, make_campaign
from gpuemu.errors import OpDefinitionError
from gpuemu.model.op import Contract, Dim, Op, Recovered
from gpuemu.model.record import Record
from gpuemu.model.verdict import Kind, Status
from gpuemu.planning.plan import make_plan


def noisy_reference(x: torch.Tensor, p: float, kept: torch.Tensor) -> torch.Tensor:
    return torch.where(kept, torch.exp(x) * 2.0, 0.0)


def make_op(**options: Any) -> Op:
    options = {"outputs": ["R N"], "contract": Contract(deterministic=False)} | options
    return Op(
        "noisy",
        {"x": "R N"},
        {"R": Dim(1, 64), "N": Dim(64, 512)},
        noisy_reference,
        params={"p": [0.25]},
        value_classes=["bell"],
        recovered={"kept": Recovered(lambda _inputs, outputs, _params: outputs[0] != 0, rate="1 - p")},
        **options,
    )


RANDOM = torch.Generator().manual_seed(0)


def kernel(x: torch.Tensor, p: float, scale: float = 2.0, rate: float | None = None) -> torch.Tensor:
    kept = torch.rand(x.shape, generator=RANDOM) >= (p if rate is None else rate)
    return torch.where(kept, torch.exp(x.float()) * scale, 0.0).to(x.dtype)


def run(call: Callable[..., Any], op: Op | None = None, budget: int = 8) -> list[Record]:
    op = op or make_op()
    plan = make_plan(op, budget=budget, seed=0)
    campaign = make_campaign(op, loader.from_callable(call, name="kernel"), "cpu", guards=())
    return list(campaign.run(plan))


def statuses(records: list[Record]) -> set[str]:
    return {str(record.verdict.status) for record in records}


def test_a_random_kernel_passes_with_its_own_decisions() -> None:
    records = run(kernel)
    assert statuses(records) == {"pass"}
    rejected = {name for record in records for name in record.verdict.rejected_predictors}
    assert rejected == {"zeros", "input", "mean", "constant"}


def test_a_wrong_value_fails_beside_a_right_decision() -> None:
    records = run(lambda x, p: kernel(x, p, scale=2.01))
    assert statuses(records) == {"fail"}
    assert {record.verdict.kind for record in records} <= {Kind.VALUE, Kind.PRECISION}
    assert records[0].verdict.kind == Kind.VALUE


def test_a_wrong_rate_fails_and_says_so() -> None:
    records = run(lambda x, p: kernel(x, p, rate=0.5))
    failed = [r.verdict for r in records if r.verdict.status is Status.FAIL]
    assert failed
    assert "random decisions are true" in failed[0].message
    assert failed[0].kind == Kind.VALUE


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda x, p: kernel(x, p)[..., :-1], Kind.SHAPE),
        (lambda x, p: kernel(x, p).double(), Kind.DTYPE),
        (lambda x, p: (kernel(x, p), x + 1), Kind.SHAPE),
        (lambda x, p: "text", Kind.SHAPE),
    ],
)
def test_malformed_outputs_are_not_read(call: Callable[..., Any], kind: Kind) -> None:
    assert {record.verdict.kind for record in run(call, budget=3)} == {kind}


def test_exceptions_are_errors() -> None:
    def raising(x: torch.Tensor, p: float) -> torch.Tensor:
        raise ZeroDivisionError("of its own")

    assert statuses(run(raising, budget=2)) == {"error"}


def test_a_recovery_that_raises_is_the_ops_fault() -> None:
    broken = make_op()
    object.__setattr__(broken, "recovered", {"kept": Recovered(lambda *_: 1 / 0)})
    with pytest.raises(OpDefinitionError, match="ZeroDivisionError"):
        run(kernel, broken, budget=1)
    object.__setattr__(broken, "recovered", {"kept": Recovered(lambda *_: 3)})
    with pytest.raises(OpDefinitionError, match="gives a int, not a tensor"):
        run(kernel, broken, budget=1)


def inverse_residual(inputs: Any, outputs: Any, _params: Any) -> torch.Tensor:
    return (outputs[0] * inputs["x"] - 1.0).abs().amax() / 2.0**-23


def test_a_residual_stands_for_a_reference() -> None:
    op = Op(
        "inverse", {"x": "N"}, {"N": Dim(2, 64)}, dtypes=["float32"], value_classes=["bell", "offset"],
        outputs=["N"], residual=inverse_residual,
    )  # fmt: skip
    report = check(lambda x: 1.0 / x, op, budget=6, seed=1, store=False)
    assert report.status is Status.PASS
    report = check(lambda x: 1.0 / x + 1e-3, op, budget=6, seed=1, store=False)
    assert report.status is Status.FAIL
    assert "exceed 30: residual is" in report.message
    assert report.minimal is not None


def test_a_kernel_that_is_right_on_contiguous_inputs_only_has_a_layout_fault() -> None:
    op = Op(
        "inverse", {"x": "M N"}, {"M": Dim(2, 8), "N": Dim(2, 64)}, dtypes=["float32"], value_classes=["bell"],
        outputs=["M N"], residual=inverse_residual,
    )  # fmt: skip

    def flat(x: torch.Tensor) -> torch.Tensor:
        memory = torch.as_strided(x, (x.numel(),), (1,), x.storage_offset())
        return (1.0 / memory).view(x.shape)

    records = run(flat, op, budget=12)
    assert {r.verdict.kind for r in records if r.verdict.status is Status.FAIL} == {Kind.LAYOUT}


@pytest.mark.parametrize(("kernel_name", "op_name"), [("drop_path", "DROP_PATH"), ("invert", "INVERSE")])
def test_the_example_of_own_ops_passes(kernel_name: str, op_name: str) -> None:
    example = Path(__file__).parents[2] / "examples" / "own_decisions.py"
    report = check(f"{example}::{kernel_name}", f"{example}::{op_name}", budget=16, seed=3, store=False)
    assert report.status is Status.PASS, report.message
