"""Which arithmetic a kernel shows."""

from __future__ import annotations

import torch

import gpuemu
from gpuemu.fingerprint import tighter_profiles
from gpuemu.model.profile import LADDER


def attention_like(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return (a @ b) @ c


OP = gpuemu.Op(
    "chain",
    inputs={"a": "M K", "b": "K N", "c": "N L"},
    dims={"M": gpuemu.Dim(1, 33), "K": gpuemu.Dim(1, 65), "N": gpuemu.Dim(1, 33), "L": gpuemu.Dim(1, 9)},
    dtypes=("float16",),
    reference=attention_like,
)


def in_float32(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return ((a.float() @ b.float()) @ c.float()).half()


def rounded_between(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return ((a.float() @ b.float()).half().float() @ c.float()).half()


def fingerprint_of(kernel: object) -> tuple[str, str]:
    report = gpuemu.check(
        kernel, OP, budget=12, seed=3, store=False, value_classes=["uniform", "bell"], layouts=["contiguous"]
    )
    assert report.passed, report.message
    found = report.fingerprint["float16"]
    return found.profile, found.judged


def test_a_kernel_that_keeps_float32_shows_p0_under_p1() -> None:
    assert fingerprint_of(in_float32) == ("P0", "P1")


def test_a_kernel_that_rounds_operands_shows_p1() -> None:
    assert fingerprint_of(rounded_between) == ("P1", "P1")


def test_an_op_without_contractions_needs_no_second_evaluation() -> None:
    report = gpuemu.check(torch.relu, "relu", budget=6, seed=0, store=False, dtypes=["float16"])
    assert report.fingerprint["float16"].profile == "P0"
    assert report.fingerprint["float16"].judged == "P1"


def test_tighter_profiles_permit_less() -> None:
    assert tighter_profiles("P0", "float32") == []
    assert tighter_profiles("P1", "float16") == ["P0"]
    assert tighter_profiles("PT", "float32") == ["P0", "P1"]
    assert tighter_profiles("P8", "float16") == ["P0", "P1"]
    assert tighter_profiles("P2", "float16") == [name for name in LADDER if name not in ("PT", "P2")]
