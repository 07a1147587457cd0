"""Accumulators as a contract declares them: simulated in NumPy, accepted where declared, rejected elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from gpuemu.inputs.fill import make_inputs
from gpuemu.model.case import Case
from gpuemu.model.op import Contract, Dim, Op
from gpuemu.reference.arithmetic import make_arithmetic
from gpuemu.reference.evaluate import evaluate

SIZE = Dim(1, 9999)
ROW_SUM = Op("row_sum", {"x": "M K"}, {"M": SIZE, "K": SIZE}, lambda x: x.sum(-1))
MATMUL = Op("matmul", {"a": "M K", "b": "K N"}, {"M": SIZE, "K": SIZE, "N": SIZE}, torch.matmul)
OPS = {"row_sum": ROW_SUM, "matmul": MATMUL}


def half_steps(op: Op, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """The op with an accumulator of NumPy's float16, one term after the other; overflow gives infinity."""
    arrays = [tensor.double().numpy() for tensor in inputs.values()]
    terms = arrays[0].T if op is ROW_SUM else arrays[0].T[:, :, None] * arrays[1][:, None, :]
    total = np.zeros(terms.shape[1:], np.float16)
    with np.errstate(over="ignore", invalid="ignore"):
        for term in terms:
            total = (total.astype(np.float64) + term).astype(np.float16)
    return torch.from_numpy(total)


def residual(
    op: Op, value_class: str, size: int, contract: Contract, dtype: str = "float16", seed: int = 1
) -> float:
    """The largest error of the float16 accumulator in units of the bound, before any storage rounding."""
    dims = {"M": 6, "K": size, "N": 5}
    case = Case(
        op.name,
        {name: dims[name] for name in op.dims},
        dtype,
        dict.fromkeys(op.inputs, "contiguous"),
        dict.fromkeys(op.inputs, value_class),
        {},
        seed,
    )
    inputs = make_inputs(op, case)
    declared = Op(op.name, op.inputs, op.dims, op.reference, contract=contract)
    (output,) = evaluate(declared, case, inputs, contract.profile_for(dtype)).outputs
    error = (half_steps(op, inputs).double() - output.value).abs()
    return float((error / output.bound).nan_to_num(nan=0.0, posinf=np.inf).max())


CLASSES = ("uniform", "bell", "offset", "log_uniform", "small_integers", "all_equal")


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("value_class", CLASSES)
@pytest.mark.parametrize("size", [1, 5, 60, 900])
def test_a_float16_accumulator_is_within_its_own_bound(name: str, value_class: str, size: int) -> None:
    for dtype in ("float32", "float16"):
        assert residual(OPS[name], value_class, size, Contract(accumulate="float16"), dtype) <= 1


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("value_class", ["uniform", "bell", "log_uniform"])
def test_a_float16_accumulator_is_far_outside_the_bound_of_float32(name: str, value_class: str) -> None:
    for size in (8, 60):
        assert residual(OPS[name], value_class, size, Contract()) > 50


def test_integers_below_2048_are_exact_in_every_accumulator() -> None:
    for accumulate in ("float16", "float32", "float64", "int32"):
        contract = Contract(accumulate=accumulate)
        assert residual(ROW_SUM, "small_integers", 900, contract) == 0  # sums of magnitude below 2048


def test_where_the_accumulator_may_overflow_nothing_is_judged() -> None:
    """Seven products of numbers around 100 exceed 65504, the largest float16."""
    case = Case("matmul", {"M": 2, "K": 7, "N": 2}, "float32", {}, {}, {}, 0)
    inputs = {"a": torch.full((2, 7), 100.0), "b": torch.full((7, 2), 100.0)}
    bounds = []
    for accumulate in ("float32", "bfloat16", "float16"):
        op = Op("matmul", MATMUL.inputs, MATMUL.dims, torch.matmul, contract=Contract(accumulate=accumulate))
        (output,) = evaluate(op, case, inputs, "P0").outputs
        bounds.append(float(output.bound.max()))
    assert bounds[0] < 1
    assert bounds[0] < bounds[1] < 7e4
    assert bounds[2] == np.inf


def test_a_wider_accumulator_is_a_tighter_bound() -> None:
    x = torch.rand(4, 1000)
    case = Case("row_sum", {"M": 4, "K": 1000}, "float32", {}, {}, {}, 0)
    seen = []
    for accumulate in ("float64", "float32", "bfloat16"):
        op = Op(
            "row_sum", ROW_SUM.inputs, ROW_SUM.dims, ROW_SUM.reference, contract=Contract(accumulate=accumulate)
        )
        (output,) = evaluate(op, case, {"x": x}, "P0").outputs
        seen.append(float(output.bound.max()))
    assert 50 * seen[0] < seen[1] < seen[2] / 1e4
    # What is left of a float64 accumulator is the rounding of its result to float32.
    assert seen[0] == pytest.approx(2.0**-24 * float(x.double().sum(-1).max()), rel=0.01)


def test_the_range_is_that_of_the_narrower_format() -> None:
    narrow: Callable[[str, str], tuple[float, float]] = lambda profile, accumulate: (  # noqa: E731
        make_arithmetic(profile, "float16", accumulate=accumulate).sum_overflow,
        make_arithmetic(profile, "float16", accumulate=accumulate).sum_underflow,
    )
    largest, smallest = float(np.finfo(np.float32).max), 2.0**-126
    assert narrow("P1", "float32") == narrow("P1", "float64") == narrow("P1", "int32") == (largest, smallest)
    assert narrow("P1", "float16") == narrow("P2", "float32") == (65504.0, 2.0**-14)
