"""Promises that only a parallel machine can break: atomics, races, an order that depends on the batch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gpuemu.candidates import loader
from gpuemu.checking import make_campaign
from gpuemu.model.case import Case
from gpuemu.model.op import Contract, Dim, Op
from gpuemu.model.verdict import Flag, Status, Verdict

pytestmark = pytest.mark.gpu

ADDED = Op(
    "added_rows",
    {"x": "R K"},
    {"R": Dim(1, 1 << 20), "K": Dim(1, 4096)},
    lambda x: x.sum(0),
    contract=Contract(deterministic=False),
)


def atomic_sum(x: torch.Tensor) -> torch.Tensor:
    """Every row added to one row by atomics, in whatever order the blocks come."""
    where = torch.zeros(len(x), dtype=torch.int64, device=x.device)
    return torch.zeros(1, x.shape[1], dtype=x.dtype, device=x.device).index_add_(0, where, x)[0]


def verdict_of(op: Op, value_class: str, repeats: int) -> Verdict:
    dims = {"R": 1 << 15, "K": 64}
    case = Case(op.name, dims, "float32", {"x": "contiguous"}, {"x": value_class}, {}, 3)
    candidate = loader.from_callable(atomic_sum, name="atomic_sum")
    return make_campaign(op, candidate, "cuda", repeats=repeats).run_case(case).verdict


def test_atomics_pass_where_the_same_bits_are_not_promised_and_are_exact_on_integers() -> None:
    real = verdict_of(ADDED, "bell", 5)
    assert (real.status, real.flags) == (Status.PASS, (Flag.NONDETERMINISTIC,))
    exact = verdict_of(ADDED, "small_integers", 5)
    assert (exact.status, exact.flags) == (Status.PASS, ())
    promised = verdict_of(replace(ADDED, contract=Contract()), "bell", 5)
    assert (promised.status, promised.kind) == (Status.FAIL, "nondeterministic")


def test_a_row_alone_may_be_summed_in_another_order_than_in_the_batch() -> None:
    """A wrapper that splits long rows over blocks when there are few of them, as libraries do."""
    op = Op("row_sum", {"x": "R K"}, {"R": Dim(1, 4096), "K": Dim(1, 1 << 16)}, lambda x: x.sum(-1))
    promised = replace(op, contract=Contract(batch_invariant=("R",)))

    def by_rows(x: torch.Tensor) -> torch.Tensor:
        total = x.sum(-1)
        # Another order gives another last bit, as a rule; here always.
        return total if len(x) > 1 else torch.nextafter(total, torch.full_like(total, torch.inf))

    case = Case("row_sum", {"R": 64, "K": 1 << 14}, "float32", {"x": "contiguous"}, {"x": "bell"}, {}, 3)
    candidate = loader.from_callable(by_rows, name="by_rows")
    assert make_campaign(op, candidate, "cuda").run_case(case).verdict.status is Status.PASS
    found = make_campaign(promised, candidate, "cuda").run_case(case).verdict
    assert (found.status, found.kind) == (Status.FAIL, "guard:batch_invariance")
