"""The constants of a profile (ORACLE.md sections 2.3, 2.4 and 8)."""

from __future__ import annotations

import math

import pytest
import torch

from gpuemu.errors import UsageError
from gpuemu.reference.arithmetic import make_arithmetic

FLOAT32_MAX = (2 - 2.0**-23) * 2.0**127


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn", "int32"])
def test_p0_is_float32_arithmetic(dtype: str) -> None:
    arithmetic = make_arithmetic("P0", dtype)
    assert arithmetic.unit_roundoff == 2.0**-24
    assert arithmetic.overflow == FLOAT32_MAX
    assert arithmetic.underflow == 2.0**-126
    assert arithmetic.tf32 == 0.0
    assert not arithmetic.operand_rounding


def test_p2_is_the_arithmetic_of_the_storage_dtype() -> None:
    half, brain = make_arithmetic("P2", "float16"), make_arithmetic("P2", "bfloat16")
    assert (half.unit_roundoff, half.overflow, half.underflow) == (2.0**-11, 65504.0, 2.0**-14)
    assert (brain.unit_roundoff, brain.underflow) == (2.0**-8, 2.0**-126)
    assert make_arithmetic("P2", "float32").unit_roundoff == 2.0**-24


def test_tf32_concerns_float32_only() -> None:
    assert make_arithmetic("PT", "float32").tf32 == 2.0**-10
    assert make_arithmetic("PT", "float16").tf32 == 0.0


@pytest.mark.parametrize("profile", ["P0", "P1", "PT", "P2"])
def test_float64_has_its_own_unit(profile: str) -> None:
    assert make_arithmetic(profile, "float64").unit_roundoff == 2.0**-53


def test_the_references_own_arithmetic_permits_no_rounding() -> None:
    own = make_arithmetic("P2", "float16", 2.0**-53)
    assert own.unit_roundoff == 2.0**-53
    assert own.overflow > 1e308
    assert not own.operand_rounding
    assert not own.cast_rounding
    assert own.constant_error(0.1) == 0.0


@pytest.mark.parametrize(("terms", "expected"), [(0, 3.0), (1, 3.0), (16, 18.0), (64, 50.0), (10**4, 2902.0)])
def test_growth_is_linear_at_both_ends(terms: int, expected: float) -> None:
    assert make_arithmetic("P0", "float32").growth(terms) == expected


def test_literals_beyond_float32_stand_for_its_limits() -> None:
    arithmetic = make_arithmetic("P0", "float16")
    limits = torch.finfo(torch.float64)
    assert arithmetic.literal(limits.min) == -FLOAT32_MAX
    assert arithmetic.literal(limits.eps) == torch.finfo(torch.float32).eps
    assert arithmetic.literal(limits.tiny) == 2.0**-126
    assert arithmetic.literal(0.3) == 0.3
    assert make_arithmetic("P0", "float64").literal(limits.eps) == limits.eps


def test_constants_are_off_by_their_rounding() -> None:
    arithmetic = make_arithmetic("P0", "float32")
    assert arithmetic.constant_error(0.5) == 0.0
    assert arithmetic.constant_error(3) == 0.0
    assert arithmetic.constant_error(math.inf) == 0.0
    assert arithmetic.constant_error(0.1) == abs(float(torch.tensor(0.1)) - 0.1) > 0
    assert make_arithmetic("P2", "bfloat16").constant_error(0.1) > 1e-5


def test_significant_bits_are_counted_in_the_compute_format() -> None:
    x = torch.tensor([1.0, 1 + 2.0**-20, 1 + 2.0**-30, 1e39], dtype=torch.float64)
    assert make_arithmetic("P0", "float16").fits(x).tolist() == [True, True, False, False]
    assert make_arithmetic("P2", "float16").fits(x).tolist() == [True, False, False, False]
    assert not bool(make_arithmetic("P0", "float32", 2.0**-53).fits(x).any())


def test_unknown_names_are_the_callers_mistake() -> None:
    with pytest.raises(UsageError):
        make_arithmetic("P7", "float32")
    with pytest.raises(UsageError):
        make_arithmetic("P0", "float31")
