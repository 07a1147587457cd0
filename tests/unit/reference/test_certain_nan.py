"""A NaN that enters a sum is its result in every order, whatever else in it overflows (ORACLE.md section 3)."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch

from gpuemu.model.case import Case
from gpuemu.model.expected import ExpectedOutput
from gpuemu.ops.registry import get_op
from gpuemu.reference.evaluate import evaluate

NAN, HUGE = float("nan"), 3e38


def expect(op: str, dtype: str = "float32", **inputs: list[list[float]]) -> ExpectedOutput:
    """The first output's expectation under the dtype's default profile."""
    tensors = {name: torch.tensor(rows, dtype=getattr(torch, dtype)) for name, rows in inputs.items()}
    declared = get_op(op)
    dims: dict[str, int] = {}
    for name, tensor in tensors.items():
        dims.update(zip(declared.tensors[name].axes, tensor.shape, strict=True))
    every = dict.fromkeys(inputs, "contiguous")
    case = Case(op, dims, dtype, every, dict.fromkeys(inputs, "uniform"), {}, 0)
    return evaluate(declared, case, tensors, declared.contract.profile_for(dtype)).outputs[0]


def test_every_order_of_a_product_with_a_nan_is_nan_and_its_bound_says_so() -> None:
    row = [HUGE, NAN, HUGE, -HUGE]
    for order in permutations(row):  # the truth, in float32
        total = torch.tensor(0.0)
        for x in order:
            total = total + torch.tensor(x) * 2.0
        assert bool(total.isnan())
    output = expect("matmul", a=[row, [HUGE, HUGE, HUGE, -HUGE]], b=[[2.0]] * 4)
    assert bool(output.value[0].isnan())
    assert output.bound[0].item() == 0.0
    assert output.expects_nan is not None
    assert bool(output.expects_nan[0])
    assert output.bound[1].item() == torch.inf  # without the NaN, the order decides what overflows


@pytest.mark.parametrize("op", ["l2norm", "rmsnorm", "layernorm"])
def test_a_row_with_a_nan_is_nan_although_its_squares_overflow(op: str) -> None:
    x = torch.tensor([[[HUGE, NAN, 1.0], [HUGE, HUGE, 1.0]]])
    output = expect(op, x=x.tolist())
    assert bool(output.value[0, 0].isnan().all())
    assert bool((output.bound[0, 0] == 0.0).all())
    assert bool((output.bound[0, 1] == torch.inf).all())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_attention_weights_that_are_nan_stay_nan_when_they_are_rounded_to_16_bits(dtype: str) -> None:
    one = [[1.0, 2.0], [0.5, -1.0]]
    output = expect("attention", dtype, q=[[NAN, 1.0], [1.0, 1.0]], k=one, v=one)
    assert bool(output.value[0].isnan().all())
    assert bool((output.bound[0] == 0.0).all())
    assert bool(output.value[1].isfinite().all())
    assert bool((output.bound[1] < 0.1).all())


def test_an_infinity_does_not_settle_what_overflow_leaves_open() -> None:
    output = expect("matmul", a=[[float("inf"), HUGE, HUGE]], b=[[1.0], [-2.0], [-2.0]])
    # Where the other two overflow first, it is inf - inf, which is NaN; else inf.
    assert output.bound.item() == torch.inf
