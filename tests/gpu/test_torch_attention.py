"""A fault of torch that our controls found: SDPA's efficient backend has NaN where float32 arithmetic has none.

Its float32 products are three of tf32. Of an infinity, or of what rounds to one in tf32, the split leaves
infinity - infinity = NaN; so a key that is to have weight 0, its score being -inf, makes NaN of the row. Hence
that backend is no control in float32 (`gpuemu.corpus.population.libraries`).
"""

from __future__ import annotations

import pytest
import torch

import gpuemu
from gpuemu.corpus.population.libraries import attention_by

pytestmark = pytest.mark.gpu


def rows(backend: str, extreme: float, dtype: torch.dtype) -> torch.Tensor:
    """Attention of 8 queries of ones; one key of 16 has a negative extreme, so its weight is 0."""
    q = torch.ones(8, 32, device="cuda", dtype=dtype)
    k, v = torch.ones(16, 32, device="cuda", dtype=dtype), torch.ones(16, 32, device="cuda", dtype=dtype)
    k[3, 5] = -extreme
    result: torch.Tensor = attention_by(backend)(q, k, v)
    return result


@pytest.mark.parametrize("backend", ["MATH", "EFFICIENT_ATTENTION"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_in_16_bits_a_key_of_weight_zero_does_nothing(backend: str, dtype: torch.dtype) -> None:
    assert torch.equal(rows(backend, torch.inf, dtype), torch.ones(8, 32, device="cuda", dtype=dtype))


@pytest.mark.parametrize("extreme", [torch.inf, torch.finfo(torch.float32).max])
def test_gpuemu_says_so_where_it_is(extreme: float) -> None:
    expected = torch.ones(8, 32, device="cuda")
    assert torch.equal(rows("MATH", extreme, torch.float32), expected)
    right = torch.equal(rows("EFFICIENT_ATTENTION", extreme, torch.float32), expected)
    print("efficient backend, float32, an extreme of", extreme, "right" if right else "NaN")
    report = gpuemu.check(
        attention_by("EFFICIENT_ATTENTION"),
        "attention",
        budget=48,
        seed=5,
        device="cuda",
        store=False,
        shrink=False,
        dtypes=["float32"],
        value_classes=["sparse_nonfinite"],
    )
    kinds = {record.verdict.kind for record in report.failures}
    print(len(report.failures), "of", len(report.records), "cases fail:", kinds)
    if not right:
        assert "nonfinite" in kinds
