"""A part of the batch run alone: bits compared, axes found, the op's mistakes told from the kernel's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpuemu.errors import OpDefinitionError
from gpuemu.inputs.slices import make_slices
from gpuemu.model.candidate import Candidate
from gpuemu.model.case import Case
from gpuemu.model.observation import Observation
from gpuemu.model.op import Contract, Dim, Op
from gpuemu.run.guards import GUARDS
from gpuemu.run.inline import observe

DIMS = {"B": Dim(1, 64), "H": Dim(1, 64)}


WATCHED = tuple(guard for guard in GUARDS if guard != "poison")  # which calls twice more where calls differ


def look(kernel: Callable[..., Any], size: int = 8, width: int = 5, **fields: Any) -> Observation:
    op = Op(
        "scaled",
        {"x": "B H", "w": "H"},
        DIMS,
        lambda x, w: x * w,
        contract=Contract(batch_invariant=("B",)),
        **fields,
    )
    generator = torch.Generator().manual_seed(2)
    inputs = {"x": torch.randn(size, width, generator=generator), "w": torch.randn(width, generator=generator)}
    case = Case("scaled", {"B": size, "H": width}, "float32", {}, {}, {}, seed=3)
    candidate = Candidate("k", "t", "torch", kernel, source_path=__file__)
    return observe(candidate, inputs, {}, op.contract, WATCHED, slices=make_slices(op, case, inputs))


def message(seen: Observation) -> str:
    assert [finding.guard for finding in seen.findings] == ["batch_invariance"]
    return seen.findings[0].message


def test_a_kernel_that_treats_rows_alike_passes() -> None:
    assert not look(lambda x, w: x * w).findings
    assert not look(lambda x, w: (x * w, x.sum(-1), w + 1)).findings


def test_a_kernel_that_chooses_its_order_by_the_batch_is_found() -> None:
    def kernel(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        # Forwards in a batch, backwards alone: as right, but for the last bit.
        parts = (x * w).unbind(-1) if len(x) > 1 else (x * w).flip(-1).unbind(-1)
        total = torch.zeros(len(x))
        for part in parts:
            total = total + part
        return total

    found = message(look(kernel, size=4, width=63))
    assert found.startswith("B = 3 of 4, run alone, gives other bits than within the batch in 1 of 1 elements")


def test_one_bit_is_enough_and_a_sign_of_zero_is_a_bit() -> None:
    assert "in 5 of 5 elements of output 0" in message(
        look(lambda x, w: x.abs() * (0.0 if len(x) > 1 else -0.0))
    )
    with_nan = look(lambda x, w: x * float("nan"))
    assert not with_nan.findings


def test_an_axis_is_told_by_the_size_or_by_the_declared_shape() -> None:
    assert not look(lambda x, w: (x * w).t().contiguous()).findings  # H B
    square = look(lambda x, w: (x * w).t().contiguous(), size=5, width=5)
    assert not square.findings
    assert not look(lambda x, w: (x * w).t().contiguous(), size=5, width=5, outputs=("H B",)).findings
    wrong = message(look(lambda x, w: (x * w).t().contiguous(), outputs=("B H",)))
    assert "gives output 0 as torch.float32 (5, 1), expected torch.float32 (1, 8)" in wrong


def test_an_op_whose_outputs_lack_the_dim_is_told_so() -> None:
    with pytest.raises(OpDefinitionError, match=r"batch_invariant names 'B'.*no output has an axis.*declare"):
        look(lambda x, w: x.sum(0))
    with pytest.raises(OpDefinitionError, match="no output has an axis"):
        look(lambda x, w: x.sum(0), outputs=("H",))


def test_outputs_of_the_wrong_form_alone_are_the_kernels_fault() -> None:
    assert "gives output 0 as" in message(look(lambda x, w: x * w if len(x) > 1 else x[0] * w))
    assert "gave 2 outputs" in message(look(lambda x, w: x * w if len(x) > 1 else (x * w, x)))
    assert "not a torch.Tensor" in message(look(lambda x, w: x * w if len(x) > 1 else None))


def test_a_refusal_alone_breaks_the_promise() -> None:
    def kernel(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        if len(x) == 1:
            raise ValueError("batches only\nsecond line")
        return x * w

    assert message(look(kernel)) == "B = 3 of 8, run alone, raises ValueError: batches only"


def test_a_kernel_whose_calls_differ_is_not_run_alone() -> None:
    calls: list[int] = []

    def kernel(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        calls.append(len(x))
        return x * w + len(calls)

    seen = look(kernel)
    assert (calls, list(seen.repeats)) == ([8, 8], [2])
    assert not seen.findings


def test_without_the_promise_nothing_is_run_alone() -> None:
    op = Op("scaled", {"x": "B"}, {"B": 8}, torch.relu)
    case = Case("scaled", {"B": 8}, "float32", {}, {}, {}, seed=3)
    assert make_slices(op, case, {"x": torch.ones(8)}) == ()
