"""A 16-bit accumulator where float32 is declared: rejected at the sizes that are stated here.

`benchmarks/low_precision_accumulation.py` finds these sizes for more schemes and value classes. The kernels are
simulated with NumPy's float16 and ml_dtypes' bfloat16, term after term.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from gpuemu.candidates import loader
from gpuemu.checking import make_campaign
from gpuemu.model.case import Case
from gpuemu.model.op import Contract, Dim, Op
from gpuemu.model.verdict import Status, Verdict

SIZE = Dim(1, 4096)
SEEDS = range(2)


def make_kernel(accumulator: Any) -> Callable[..., torch.Tensor]:
    """A row sum of one input or a product of two, with an accumulator of a NumPy dtype."""

    def kernel(*inputs: torch.Tensor) -> torch.Tensor:
        arrays = [tensor.double().numpy() for tensor in inputs]
        terms = arrays[0].T if len(arrays) == 1 else arrays[0].T[:, :, None] * arrays[1][:, None, :]
        total = np.zeros(terms.shape[1:], accumulator)
        with np.errstate(over="ignore", invalid="ignore"):
            for term in terms:
                total = (total.astype(np.float64) + term).astype(accumulator)
        return torch.from_numpy(total.astype(np.float64)).to(inputs[0].dtype)

    return kernel


KERNELS = {"float16": make_kernel(np.float16), "bfloat16": make_kernel(ml_dtypes.bfloat16)}


def verdict_of(
    name: str, accumulator: str, storage: str, value_class: str, size: int, seed: int, declared: str
) -> Verdict:
    shapes = {"row_sum": {"x": "M K"}, "matmul": {"a": "M K", "b": "K N"}}[name]
    reference = torch.matmul if name == "matmul" else lambda x: x.sum(-1)
    dims = {"M": SIZE, "K": SIZE, "N": SIZE} if name == "matmul" else {"M": SIZE, "K": SIZE}
    op = Op(name, shapes, dims, reference, contract=Contract(accumulate=declared))
    sizes = {"M": 8, "K": size, "N": 8}
    case = Case(
        name,
        {dim: sizes[dim] for dim in dims},
        storage,
        dict.fromkeys(shapes, "contiguous"),
        dict.fromkeys(shapes, value_class),
        {},
        seed,
    )
    return (
        make_campaign(op, loader.from_callable(KERNELS[accumulator], name="kernel"), "cpu")
        .run_case(case)
        .verdict
    )


# Smallest K at which every seed is rejected with 8 x 8 outputs of a product, or 8 sums.
STATED = [
    ("matmul", "float16", "float32", 1),
    ("matmul", "float16", "float16", 2),
    ("matmul", "float16", "bfloat16", 1),
    ("matmul", "bfloat16", "float32", 1),
    ("matmul", "bfloat16", "float16", 1),
    ("matmul", "bfloat16", "bfloat16", 2),
    ("row_sum", "float16", "float32", 1),
    ("row_sum", "float16", "float16", 4),
    ("row_sum", "bfloat16", "float32", 1),
    ("row_sum", "bfloat16", "float16", 1),
    ("row_sum", "bfloat16", "bfloat16", 6),
]


@pytest.mark.parametrize("value_class", ["uniform", "bell"])
@pytest.mark.parametrize(("name", "accumulator", "storage", "size"), STATED)
def test_a_16_bit_accumulator_is_rejected_from_the_stated_size_on(
    name: str, accumulator: str, storage: str, size: int, value_class: str
) -> None:
    for larger in (size, 4 * size, 64 * size):
        for seed in SEEDS:
            verdict = verdict_of(name, accumulator, storage, value_class, larger, seed, "float32")
            assert verdict.status is Status.FAIL, (larger, seed)


@pytest.mark.parametrize("value_class", ["uniform", "bell", "offset", "log_uniform"])
@pytest.mark.parametrize("accumulator", KERNELS)
@pytest.mark.parametrize("name", ["matmul", "row_sum"])
def test_it_is_accepted_where_the_contract_declares_it(name: str, accumulator: str, value_class: str) -> None:
    for storage in ("float32", "float16", "bfloat16"):
        for size in (1, 9, 128):
            verdict = verdict_of(name, accumulator, storage, value_class, size, 0, accumulator)
            assert verdict.status in (Status.PASS, Status.INCONCLUSIVE), (storage, size)
