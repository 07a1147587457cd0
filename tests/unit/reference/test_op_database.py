"""torch's op database as references: which ops are followed, and that float32 lies within the bound."""

from __future__ import annotations

import importlib.util
import warnings
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
import torch

from gpuemu.reference import dispatch
from gpuemu.reference.registry import RULES

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parents[3] / "benchmarks" / "reference_coverage.py"
# What is wrong for a reason that is no fault: an empty tensor's elements are what memory held, and the
# statistics of native_batch_norm are empty in evaluation on the CPU, but not on other devices.
EXCUSED = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "native_batch_norm", "new_empty",
    "new_empty_strided",
}  # fmt: skip
# Its kernels run on devices only, so there is nothing to compare with.
ON_DEVICES = {
    "jiterator_2inputs_2outputs", "jiterator_4inputs_with_extra_args", "jiterator_binary",
    "jiterator_binary_return_by_ref", "jiterator_unary",
}  # fmt: skip
# Ops whose generic bound is meant to stay: factorisations, special functions, random or set-valued ops.
FEWEST_FOLLOWED = 495


@pytest.fixture(scope="module")
def coverage() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference_coverage", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def outcomes(coverage: ModuleType) -> dict[str, tuple[str, str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {coverage.name_of(info): coverage.classify(info) for info in coverage.op_db}


def test_nothing_breaks_and_no_float32_result_is_outside(outcomes: dict[str, tuple[str, str]]) -> None:
    wrong = {name: found for name, found in outcomes.items() if found[0] in ("broken", "unsound")}
    assert {name: found for name, found in wrong.items() if name not in EXCUSED} == {}


def test_what_is_followed_is_compared(outcomes: dict[str, tuple[str, str]]) -> None:
    assert {name for name, found in outcomes.items() if found[0] == "not compared"} <= ON_DEVICES


def test_the_comparison_sees_a_wrong_rule(coverage: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that forgets its operands' errors is found by inexact inputs, and by those alone."""
    (info,) = (info for info in coverage.op_db if info.name == "nn.functional.relu")
    assert coverage.classify(info)[0] == "followed"
    overload = torch.ops.aten.relu.default
    monkeypatch.setattr(dispatch, "ROUTES", {})  # it remembers the rule of an op that was called
    monkeypatch.setitem(RULES, overload, lambda call: call.make(torch.relu(call.args[0].value)))
    assert coverage.classify(info)[0] == "unsound"


def test_most_of_the_database_is_followed(outcomes: dict[str, tuple[str, str]]) -> None:
    counts = Counter(outcome for outcome, _ in outcomes.values())
    assert counts["followed"] >= FEWEST_FOLLOWED, counts


@pytest.mark.parametrize(
    "name",
    ["matmul", "nn.functional.conv2d", "nn.functional.conv_transpose2d", "cumsum", "cumprod", "sort", "topk",
     "nn.functional.scaled_dot_product_attention", "index_add", "scatter_reduce.sum", "logcumsumexp", "median",
     "nn.functional.interpolate.bilinear", "nn.functional.batch_norm", "einsum", "cdist", "quantile",
     "isclose", "linspace", "linspace.tensor_overload", "as_strided", "scatter", "index_reduce.prod", "digamma",
     "i0", "nn.functional.linear"],
)  # fmt: skip
def test_what_references_use_most_has_a_rule(outcomes: dict[str, tuple[str, str]], name: str) -> None:
    if name == "nn.functional.scaled_dot_product_attention":  # its samples include dropout, which is refused
        assert outcomes[name][0] in ("followed", "refused")
    else:
        assert outcomes[name][0] == "followed", outcomes[name]
