"""Adversarial and NaN-injected inputs: no control is flagged; crossed with plain values they find every bug.

The published comparison pays for such inputs with 94 % of its controls flagged (PUBLISHED.md). On their own
they hide bugs, whatever the oracle: one NaN in a row of keys makes the output NaN with or without the bug. So
recall is asserted for plans that cross them with plain values; `-s` prints what each class finds alone.
"""

from __future__ import annotations

import pytest

import gpuemu
from gpuemu.corpus.catalogue import CorpusKernel, load_catalogue
from gpuemu.model.verdict import Status

CLASSES = {
    "adversarial": ["adversarial"],
    "nan_injected": ["nan_injected"],
    "crossed": ["uniform", "adversarial", "nan_injected"],
}
CONTROLS = [kernel for kernel in load_catalogue() if kernel.role == "control"]
BUGGY = [kernel for kernel in load_catalogue() if kernel.role == "buggy"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize("values", CLASSES),
    pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"]),
]


def first_failure(kernel: CorpusKernel, dtype: str, values: str, budget: int) -> int | None:
    report = gpuemu.check(
        kernel.name,
        budget=budget,
        seed=0,
        dtypes=[dtype],
        value_classes=CLASSES[values],
        shrink=False,
        store=False,
    )
    assert len(report.records) == budget
    bad = [i for i, r in enumerate(report.records, 1) if r.verdict.status in (Status.FAIL, Status.ERROR)]
    found = f"{len(bad)} of {budget} cases failed" + (f", first {bad[0]}" if bad else "")
    print(f"\n{kernel.name} {dtype} {values}: {found}", end="")  # noqa: T201
    return bad[0] if bad else None


@pytest.mark.parametrize("kernel", CONTROLS, ids=lambda kernel: kernel.name)
def test_hard_inputs_flag_no_control(kernel: CorpusKernel, dtype: str, values: str) -> None:
    assert first_failure(kernel, dtype, values, 24) is None


@pytest.mark.parametrize("kernel", BUGGY, ids=lambda kernel: kernel.name)
def test_hard_inputs_among_plain_ones_find_every_bug(kernel: CorpusKernel, dtype: str, values: str) -> None:
    found = first_failure(kernel, dtype, values, 8)
    if values == "crossed":
        assert found is not None
