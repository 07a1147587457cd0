"""The rules of other projects, against what those projects' own code does or the formula by hand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu.oracle.baselines.comparison import Comparison
from gpuemu.oracle.baselines.rules import RULES

BY_NAME = {rule.name: rule for rule in RULES}


def comparison(
    actual: torch.Tensor,
    native: torch.Tensor | None,
    exact: torch.Tensor | None = None,
    op: str = "softmax",
    **more: object,
) -> Comparison:
    if exact is None:
        assert native is not None
        exact = native.double()
    natives = None if native is None else (native,)
    dtype = str(actual.dtype).removeprefix("torch.")
    return Comparison((actual,), natives, (exact,), op, dtype, **more)  # type: ignore[arg-type]


floats = st.floats(-1e3, 1e3, width=32) | st.sampled_from([0.0, float("inf"), float("nan"), -float("inf")])


@settings(deadline=None)
@given(st.lists(st.tuples(floats, st.floats(-2e-5, 2e-5), st.booleans()), min_size=1, max_size=8))
def test_assert_close_is_torchs(rows: list[tuple[float, float, bool]]) -> None:
    native = torch.tensor([value for value, _, _ in rows])
    actual = torch.tensor([value + (shift if used else 0.0) for value, shift, used in rows])
    try:
        torch.testing.assert_close(actual, native)
        accepted = True
    except AssertionError:
        accepted = False
    assert BY_NAME["assert_close"].judge(comparison(actual, native)).accepts is accepted


@given(
    st.lists(st.tuples(floats, floats), min_size=1, max_size=8),
    st.sampled_from(["kernelbench", "backendbench"]),
)
def test_allclose_rules_are_allclose(rows: list[tuple[float, float]], name: str) -> None:
    actual, native = (torch.tensor(column) for column in zip(*rows, strict=True))
    tolerance = 1e-4 if name == "kernelbench" else 1e-2
    accepted = torch.allclose(actual.double(), native.double(), rtol=tolerance, atol=tolerance)
    assert BY_NAME[name].judge(comparison(actual, native)).accepts is accepted


def test_kernelbench_accepts_zeros_for_small_outputs() -> None:
    small = torch.full((1, 50_257), 1.0 / 50_257)
    assert BY_NAME["kernelbench"].judge(comparison(torch.zeros_like(small), small)).accepts


def test_a_matched_ratio_accepts_one_wrong_column_of_a_hundred() -> None:
    right = torch.ones(10, 100)
    wrong = right.clone()
    wrong[:, -1] = 7.0
    assert BY_NAME["flashinfer_bench"].judge(comparison(wrong, right)).accepts
    wrong[:, -6:] = 7.0
    assert BY_NAME["flashinfer_bench"].judge(comparison(wrong, right)).accepts is False


def test_flash_attentions_ratio_by_hand() -> None:
    exact = torch.tensor([1.0, 2.0], dtype=torch.float64)
    native = torch.tensor([1.001, 2.0])
    floor = 2.0 * ((exact.float() + 0.3 - 0.3).double() - exact).abs().max()
    allowed = float(2.0 * (native.double() - exact).abs().max() + floor)
    for share, accepted in ((0.99, True), (1.01, False)):
        actual = (exact + torch.tensor([0.0, share * allowed], dtype=torch.float64)).float()
        ruling = BY_NAME["flash_attention"].judge(comparison(actual, native, exact))
        assert ruling.accepts is accepted
        assert ruling.tolerance == pytest.approx(allowed)
    lost = torch.tensor([float("nan"), 2.0])
    assert BY_NAME["flash_attention"].judge(comparison(lost, native, exact)).accepts is False


def test_dynamo_forgives_what_torch_itself_loses() -> None:
    exact = torch.linspace(0, 1, 2000, dtype=torch.float64)
    native = (exact + 1e-3).float()
    assert BY_NAME["dynamo_same"].judge(comparison((exact - 1.5e-3).float(), native, exact)).accepts
    assert BY_NAME["dynamo_same"].judge(comparison((exact - 3e-3).float(), native, exact)).accepts is False


def test_the_published_rule_is_absolute_and_refuses_every_nan() -> None:
    exact = torch.tensor([1e6, 0.0], dtype=torch.float64)
    rule = BY_NAME["published_absolute"]
    assert rule.judge(comparison(exact.float() + torch.tensor([0.0, 9e-6]), None, exact)).accepts
    assert rule.judge(comparison(exact.float() + torch.tensor([0.0, 2e-5]), None, exact)).accepts is False
    nan = torch.tensor([float("nan"), 0.0], dtype=torch.float64)
    assert rule.judge(comparison(nan.float(), None, nan)).accepts is False  # although the reference has it too
    assert rule.judge(comparison(exact.float(), None, exact, op="rope")).accepts is None


def test_a_calibrated_rule_takes_its_threshold_and_abstains_without_one() -> None:
    exact = torch.zeros(3, dtype=torch.float64)
    actual = torch.tensor([0.0, 0.5, 0.0])
    rule = BY_NAME["p95x1.5"]
    assert rule.judge(comparison(actual, None, exact)).accepts is None
    assert rule.judge(comparison(actual, None, exact, thresholds={"softmax float32": 0.6})).accepts
    ruling = rule.judge(comparison(actual, None, exact, thresholds={"softmax float32": 0.4}))
    assert (ruling.accepts, ruling.index, ruling.actual, ruling.expected) == (False, 1, 0.5, 0.0)


def test_rules_that_need_torch_abstain_where_it_cannot_run() -> None:
    exact = torch.zeros(3, dtype=torch.float64)
    for name in ("kernelbench", "assert_close", "flash_attention", "flashinfer_bench", "dynamo_same"):
        assert BY_NAME[name].judge(comparison(torch.zeros(3), None, exact)).accepts is None


def test_a_ratio_rule_accepts_what_is_exact_even_where_nothing_is_allowed() -> None:
    one = torch.ones(3)
    assert BY_NAME["flash_attention"].judge(comparison(one, one)).accepts
