"""The oracle's test of itself on built-in ops: a few cases each here, the whole library in the slow tier."""

from __future__ import annotations

import pytest

from gpuemu.ops.registry import get_op, load_ops
from gpuemu.self_test import self_test

SAMPLE = ("softmax", "matmul", "gelu", "layer_norm", "quantise_int8", "rope")


@pytest.mark.parametrize("name", SAMPLE)
def test_nowhere_blind(name: str) -> None:
    result = self_test(get_op(name), budget=3)
    assert result.failures == ()
    assert result.probes > 100


def test_what_has_no_bound_says_so() -> None:
    assert "residuals" in self_test(get_op("qr"), budget=1).note
    assert "decisions" in self_test(get_op("dropout"), budget=1).note


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(load_ops()))
def test_nowhere_blind_in_the_whole_library(name: str) -> None:
    assert self_test(get_op(name), budget=16, seed=7).failures == ()
