"""A fault of torch that our controls found: its CPU product of bfloat16 matrices reads past the row's end.

Where the inner size is odd, one element after each row takes part with weight 0, so that a NaN there becomes a
NaN in a row that holds none. While this holds, torch's bfloat16 product is no control on the CPU
(`gpuemu.corpus.population.implementation.WRONG_ON_CPU`); should it fail, torch is mended and that can go.
"""

from __future__ import annotations

import torch

import gpuemu


def test_a_nan_in_the_next_row_leaks_through_an_odd_inner_size() -> None:
    a, b = torch.ones(48, 9, dtype=torch.bfloat16), torch.ones(9, 15, dtype=torch.bfloat16)
    a[5, 0] = torch.nan
    rows = (a @ b).isnan().any(dim=1)
    assert bool(rows[5])
    assert int(rows.sum()) > 1, "torch is mended: drop WRONG_ON_CPU"


def test_gpuemu_finds_it() -> None:
    report = gpuemu.check(
        torch.matmul,
        "matmul",
        budget=24,
        seed=5,
        store=False,
        shrink=False,
        dtypes=["bfloat16"],
        value_classes=["sparse_nonfinite"],
    )
    assert report.failures
    assert {record.verdict.kind for record in report.failures} <= {"nonfinite", "layout"}
