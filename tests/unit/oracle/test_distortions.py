"""Distortions of the right answer, and the smallest relative error that a case sees."""

from __future__ import annotations

import math

import pytest
import torch

import gpuemu
from gpuemu.model.expected import Expected, ExpectedOutput
from gpuemu.oracle.bounds import accept
from gpuemu.oracle.distortions import DISTORTIONS, rejected, visible_bits
from gpuemu.report.distortions import distortion_lines


def expected_of(value: torch.Tensor, relative: float = 0.0, dtype: str = "float32") -> Expected:
    value = value.double()
    return Expected((ExpectedOutput(value, value.abs() * relative, dtype),), "P0")


def refused(expected: Expected) -> set[str]:
    return set(rejected(expected, accept(expected), tuple(DISTORTIONS)))


def test_plain_values_reject_every_distortion() -> None:
    assert refused(expected_of(torch.arange(1, 22).reshape(3, 7))) == set(DISTORTIONS)


@pytest.mark.parametrize(
    ("value", "accepted"),
    [
        (torch.ones(3, 4), {"rows shifted", "columns shifted"}),
        (torch.tensor([[1.0, 2.0, 3.0, 0.0], [4.0, 5.0, 6.0, 0.0]]), {"last element zero"}),
        (torch.zeros(3, 4), set(DISTORTIONS)),
        (torch.arange(1, 8), {"last row dropped", "rows shifted"}),
        (torch.tensor(5.0), set(DISTORTIONS) - {"sign flipped"}),
    ],
)
def test_what_a_case_cannot_tell(value: torch.Tensor, accepted: set[str]) -> None:
    assert set(DISTORTIONS) - refused(expected_of(value)) == accepted


@pytest.mark.parametrize(("dtype", "precision"), [("float32", 24), ("float16", 11), ("bfloat16", 8)])
def test_without_a_bound_the_storage_decides_what_is_seen(dtype: str, precision: int) -> None:
    """1 (1 + 2^-k) rounds away from 1 from k = p - 1 on down; below 1 the spacing is half of that."""
    bits = visible_bits(
        expected_of(torch.ones(4), dtype=dtype), accept(expected_of(torch.ones(4), dtype=dtype))
    )
    assert bits == precision - 1


@pytest.mark.parametrize("exponent", [5, 9, 14])
def test_a_relative_bound_hides_what_lies_within_it(exponent: int) -> None:
    expected = expected_of(torch.full((8,), 1.5), relative=2.0**-exponent)
    bits = visible_bits(expected, accept(expected))
    assert bits in (exponent - 1, exponent)
    for k, seen in ((exponent - 1, True), (exponent + 1, False)):
        scaled = (expected.outputs[0].value * (1 + 2.0**-k)).float()
        assert bool(accept(expected).outputs[0].contains(scaled).all()) is not seen


def test_only_improvements_are_looked_for() -> None:
    expected = expected_of(torch.ones(4))
    assert visible_bits(expected, accept(expected), at_least=30) is None


def test_a_report_says_what_the_plan_sees_and_what_not() -> None:
    report = gpuemu.check(torch.relu, "relu", budget=16, seed=0, store=False)
    assert report.adequacy.visible_bits["float32"] >= 20
    assert report.adequacy.visible_bits["bfloat16"] >= 6
    assert report.adequacy.accepted_distortions == ()
    text = "\n".join(line.plain for line in distortion_lines(report.adequacy))
    assert "relative errors down to 2^-" in text
    document = report.to_json()["adequacy"]
    assert document["visible_bits"] == report.adequacy.visible_bits
    assert not math.isnan(document["visible_bits"]["float32"])


def test_a_plan_of_equal_rows_says_that_it_cannot_tell_them_apart() -> None:
    report = gpuemu.check(torch.relu, "relu", budget=4, seed=0, store=False, value_classes=["ones"])
    assert "rows shifted" in report.adequacy.accepted_distortions
    assert any("rows shifted" in line.plain for line in distortion_lines(report.adequacy))
