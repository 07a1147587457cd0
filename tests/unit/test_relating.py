"""Metamorphic relations end to end: no alarm on controls, faults that a reference shares, and no reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn import functional

import gpuemu
from gpuemu.errors import UsageError
from gpuemu.model.verdict import Status
from gpuemu.ops.registry import get_op
from gpuemu.oracle.relations import KNOWN, RELATIONS

F = functional


def eager(name: str) -> Callable[..., Any]:
    return get_op(name).reference  # type: ignore[return-value]


def check(kernel: Any, op: Any, **options: Any) -> gpuemu.Report:
    plain = {"budget": 4, "seed": 2, "store": False, "shrink": False, "layouts": ["contiguous"]}
    return gpuemu.check(kernel, op, **{**plain, "value_classes": ["uniform", "bell"], **options})


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_no_relation_is_violated_by_torch_itself(name: str) -> None:
    report = check(eager(name), name, dtypes=["float32"], budget=6)
    assert report.passed, report.message
    held = {relation for record in report.records for relation in record.verdict.relations}
    assert held == set(KNOWN[name]) - ({"probabilities"} if "probabilities" not in held else set())


def without_scale(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return functional.softmax(q @ k.mT, dim=-1) @ v


def drops_a_key(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return functional.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1)[..., :-1] @ v[..., :-1, :]


def ignores_the_last_column(x: torch.Tensor) -> torch.Tensor:
    result = functional.layer_norm(x, x.shape[-1:], eps=1e-5)
    result[..., -1] = 0.0
    return result


def shifted_by_a_column(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a @ b).roll(1, dims=-1)


SHARED_FAULTS = {
    "drops_a_key": (drops_a_key, "attention", "constant_values"),
    "ignores_the_last_column": (ignores_the_last_column, "layernorm", "column_permutation"),
    "shifted_by_a_column": (shifted_by_a_column, "matmul", "identity"),
    "half": (lambda x: 0.5 * torch.sigmoid(x), "sigmoid", "complement"),
}


@pytest.mark.parametrize("fault", SHARED_FAULTS)
def test_a_fault_that_reference_and_kernel_share_is_found(fault: str) -> None:
    kernel, name, expected = SHARED_FAULTS[fault]
    op = replace(get_op(name), reference=kernel)
    report = check(kernel, op, dtypes=["float32"])
    assert report.status is Status.FAIL
    kinds = {record.verdict.kind for record in report.failures}
    assert all(str(kind).startswith("relation:") for kind in kinds)
    texts = " ".join(f"{r.verdict.kind} {r.verdict.message}" for r in report.failures)
    assert expected in texts


def test_relations_are_blind_to_a_missing_scale_as_the_design_says() -> None:
    """So they are a second opinion, and cannot replace the reference."""
    op = replace(get_op("attention"), reference=without_scale)
    assert check(without_scale, op, dtypes=["float32"]).passed


def test_without_a_reference_exact_relations_still_judge() -> None:
    report = check(torch.matmul, "matmul", reference=False, dtypes=["float32"])
    assert report.passed, report.message
    assert not report.run.reference
    assert report.adequacy.is_sufficient
    wrong = check(shifted_by_a_column, "matmul", reference=False, dtypes=["float32"])
    assert wrong.status is Status.FAIL
    assert str(wrong.failures[0].verdict.kind).startswith("relation:")


def test_without_a_reference_and_without_a_judgeable_relation_nothing_is_established() -> None:
    assert check(eager("softmax"), "softmax", reference=False).status is Status.INCONCLUSIVE
    assert check(eager("liger.rms_norm"), "liger.rms_norm", reference=False).status is Status.INCONCLUSIVE


def test_an_unknown_relation_is_named() -> None:
    op = replace(get_op("softmax"), relations=("sums_to_two",))
    with pytest.raises(UsageError, match="sums_to_two"):
        check(eager("softmax"), op)


def test_every_relation_is_known_for_some_op() -> None:
    assert {name for names in KNOWN.values() for name in names} == set(RELATIONS)
