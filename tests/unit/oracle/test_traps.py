"""Numeric traps seen in respected code (LIBRARIES.md section D), as regression tests of the judge."""

from __future__ import annotations

import pytest
import torch
from oracle_cases import INF, NAN, expect, f64, judged

from gpuemu.model.verdict import Kind, Status, Verdict


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_trap_1_nan_is_not_let_through_by_a_comparison_that_is_false(dtype: str) -> None:
    """llm.c compares `fabs(a - b) > tolerance`, which is false for NaN."""
    stored = getattr(torch, dtype)
    expected = expect(torch.ones(64, dtype=torch.float64), 0.5, dtype)
    for position in (0, 31, 63):
        actual = torch.ones(64, dtype=stored)
        actual[position] = NAN
        verdict = judged(actual, expected)
        assert (verdict.status, verdict.kind) == (Status.FAIL, Kind.NONFINITE)
        assert verdict.worst is not None
        assert verdict.worst.index == (position,)
    assert judged(torch.full((64,), NAN, dtype=stored), expected).status is Status.FAIL


def test_trap_2_a_non_finite_reference_is_not_skipped() -> None:
    """llm.c leaves elements out whose reference is not finite."""
    expected = expect(f64(INF, -INF, 1.0, 1.0), 0.0)
    for wrong in ([0.0, -INF, 1.0, 1.0], [INF, INF, 1.0, 1.0], [INF, 7.0, 1.0, 1.0], [NAN, -INF, 1.0, 1.0]):
        assert judged(torch.tensor(wrong), expected).kind == Kind.NONFINITE
    assert judged(torch.tensor([INF, -INF, 1.0, 1.0]), expected).status is Status.PASS


def test_trap_3_one_bound_decides_not_two_that_must_both_fail() -> None:
    """flashinfer-bench fails an element only if the absolute and the relative error are both too large."""
    tiny = expect(f64(1e-9, 1.0), 1e-12)  # absolutely small, relatively wrong
    assert judged(torch.tensor([3e-9, 1.0]), tiny).kind == Kind.VALUE
    huge = expect(f64(1e9, 1.0), 64.0)  # relatively small, absolutely wrong
    assert judged(torch.tensor([1e9 + 1024, 1.0]), huge).kind == Kind.VALUE


@pytest.mark.parametrize("size", [1, 1000, 100_000])
def test_trap_4_what_is_accepted_does_not_depend_on_the_number_of_elements(size: int) -> None:
    """jax's _assert_numpy_close multiplies the tolerance by the size, so that one wrong element drowns."""

    def with_error(error: float) -> Verdict:
        value = torch.ones(size, dtype=torch.float64)
        actual = torch.ones(size)
        actual[size // 2] += error
        return judged(actual, expect(value, 1e-5))

    assert with_error(0.9e-5).status is Status.PASS
    assert with_error(1.2e-5).status is Status.FAIL
    verdict = with_error(1.0)
    assert verdict.errors is not None
    assert verdict.errors.exceeding == 1
    assert verdict.worst is not None
    assert verdict.worst.index == (size // 2,)


def test_trap_7_an_empty_output_does_not_pass_for_a_full_one() -> None:
    """flashinfer-bench compares nothing and finds no difference."""
    expected = expect(torch.ones(4, 8, dtype=torch.float64), 1e-3)
    for empty in (torch.empty(0), torch.empty(0, 8), torch.empty(4, 0)):
        verdict = judged(empty, expected)
        assert (verdict.status, verdict.kind) == (Status.FAIL, Kind.SHAPE)


def test_no_share_of_wrong_elements_is_tolerated() -> None:
    """Matching 99.9 % of the elements hides a wrong last column (HACKS.md section 2A, class 6)."""
    value = torch.ones(1000, 100, dtype=torch.float64)
    actual = torch.ones(1000, 100)
    actual[-1, -1] = 1.01
    assert judged(actual, expect(value, 1e-5)).status is Status.FAIL
