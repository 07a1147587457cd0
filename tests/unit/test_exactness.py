"""Which ops get exact inputs, and that such inputs convict what real-valued ones excuse."""

from __future__ import annotations

import pytest
import torch

import gpuemu
from gpuemu.exactness import is_exact
from gpuemu.inputs.exact import EXACT, ExactForm, exact_form
from gpuemu.inputs.fill import make_inputs
from gpuemu.model.case import Case
from gpuemu.model.op import Contract, Dim, Op
from gpuemu.ops.registry import get_op


@pytest.mark.parametrize(
    ("name", "exact"),
    [("matmul", True), ("relu", True), ("softmax", False), ("layernorm", False), ("gelu", False)],
)
def test_linear_and_selecting_ops_are_found_to_be_exact(name: str, exact: bool) -> None:
    assert is_exact(get_op(name)) is exact


def make_op(accumulate: str = "float32") -> Op:
    return Op(
        "product",
        inputs={"a": "M K", "b": "K N"},
        dims={"M": Dim(1, 64), "K": Dim(1, 8192), "N": Dim(1, 64)},
        reference=torch.matmul,
        contract=Contract(accumulate=accumulate),
    )


def case_of(op: Op, terms: int, dtype: str = "float16") -> Case:
    plain = dict.fromkeys(op.inputs, "contiguous")
    dims = {"M": 1, "K": terms, "N": 3}
    return Case(op.name, dims, dtype, plain, dict.fromkeys(op.inputs, EXACT), {}, seed=5)


def test_integers_get_smaller_and_fewer_as_accumulators_get_narrower() -> None:
    assert exact_form(make_op(), case_of(make_op(), 8192)) == ExactForm(2, None)
    narrow = make_op("float16")
    assert exact_form(narrow, case_of(narrow, 64)) == ExactForm(2, None)
    assert exact_form(narrow, case_of(narrow, 300)) == ExactForm(1, None)
    assert exact_form(narrow, case_of(narrow, 8192)) == ExactForm(1, 2**10)


@pytest.mark.parametrize("terms", [7, 300, 8192])
def test_partial_sums_stay_within_the_accumulator(terms: int) -> None:
    """The condition of section 4 itself, K A B <= 2^11 for a float16 accumulator, by brute force."""
    op = make_op("float16")
    inputs = make_inputs(op, case_of(op, terms))
    a, b = (inputs[name].double() for name in "ab")
    assert float((a.abs() @ b.abs()).max()) <= 2.0**11
    assert float(a.abs().max()) > 0
    assert torch.equal(a, a.round())


def test_a_lost_term_shows_at_any_size_on_exact_inputs_only() -> None:
    """One product of 2048 left out hides within the bound of real values, never within that of integers."""

    def loses_a_little(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        result = a.double() @ b.double()
        if a.shape[1] > 8:
            result = result * (1.0 + 2.0**-22)
        return result.to(a.dtype)

    op = make_op().with_dims(K=Dim(1, 512))
    plan = {"budget": 3, "seed": 1, "store": False, "dtypes": ["float32"]}
    assert gpuemu.check(loses_a_little, op, value_classes=["uniform", "bell"], **plan).passed  # type: ignore[arg-type]
    report = gpuemu.check(loses_a_little, op, **plan)  # type: ignore[arg-type]
    assert not report.passed
    assert set(report.failures[0].case.value_classes.values()) == {EXACT}
