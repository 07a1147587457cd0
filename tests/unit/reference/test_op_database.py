"""torch's op database as references: which ops are followed, and that float32 lies within the bound."""

from __future__ import annotations

import importlib.util
import warnings
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parents[3] / "benchmarks" / "reference_coverage.py"
# An empty tensor has no values to compare, sparse and CUDA-only ops are no references, native_batch_norm's
# second output is empty in evaluation, and three ops of torch mix dtypes in a way that our wrapper cannot.
EXCUSED = ("empty", "jiterator", "to_sparse", "native_batch_norm", "isclose", "linspace", "as_strided")
# Ops whose generic bound is meant to stay: factorisations, special functions, random or set-valued ops.
FEWEST_FOLLOWED = 480


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
        return {
            f"{info.name} {info.variant_test_name}".strip(): coverage.classify(info) for info in coverage.op_db
        }


def test_nothing_breaks_and_no_float32_result_is_outside(outcomes: dict[str, tuple[str, str]]) -> None:
    wrong = {name: found for name, found in outcomes.items() if found[0] in ("broken", "unsound")}
    assert {name for name in wrong if not any(word in name for word in EXCUSED)} == set()


def test_most_of_the_database_is_followed(outcomes: dict[str, tuple[str, str]]) -> None:
    counts = Counter(outcome for outcome, _ in outcomes.values())
    assert counts["followed"] >= FEWEST_FOLLOWED, counts


@pytest.mark.parametrize(
    "name",
    ["matmul", "nn.functional.conv2d", "nn.functional.conv_transpose2d", "cumsum", "cumprod", "sort", "topk",
     "nn.functional.scaled_dot_product_attention", "index_add", "scatter_reduce sum", "logcumsumexp", "median",
     "nn.functional.interpolate bilinear", "nn.functional.batch_norm", "einsum", "cdist", "quantile"],
)  # fmt: skip
def test_what_references_use_most_has_a_rule(outcomes: dict[str, tuple[str, str]], name: str) -> None:
    if name == "nn.functional.scaled_dot_product_attention":  # its samples include dropout, which is refused
        assert outcomes[name][0] in ("followed", "refused")
    else:
        assert outcomes[name][0] == "followed", outcomes[name]
