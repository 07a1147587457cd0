"""A fault of torch that our controls found: on some CPUs its product of bfloat16 matrices reads past a row.

Where the inner size is odd, one element after each row takes part with weight 0, so that a NaN there becomes a
NaN in a row that holds none. So torch's bfloat16 product is no control on the CPU
(`gpuemu.corpus.population.implementation.WRONG_ON_CPU`). Which CPUs: those for which torch takes the matrix
instructions of oneDNN; gpuemu must say it there, and nowhere else.
"""

from __future__ import annotations

import torch

import gpuemu


def leaks_here() -> bool:
    """Whether this CPU's product has a NaN in a row that holds none."""
    a, b = torch.ones(48, 9, dtype=torch.bfloat16), torch.ones(9, 15, dtype=torch.bfloat16)
    a[5, 0] = torch.nan
    rows = (a @ b).isnan().any(dim=1)
    assert bool(rows[5])
    return int(rows.sum()) > 1


def test_gpuemu_finds_it_where_it_is() -> None:
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
    assert bool(report.failures) == leaks_here()
    assert {record.verdict.kind for record in report.failures} <= {"nonfinite", "layout"}
