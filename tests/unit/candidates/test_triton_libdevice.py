"""libdevice functions against mpmath and Python's own integers."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu.candidates import triton_libdevice
from gpuemu.errors import CandidateRefusedError

SAMPLES = [-30.0, -3.7, -1.0, -0.4, -1e-6, 1e-6, 0.3, 0.5, 1.0, 2.5, 7.0, 30.0]

_REAL = {
    "tanh": mpmath.tanh, "erf": mpmath.erf, "erfc": mpmath.erfc, "exp": mpmath.exp, "expm1": mpmath.expm1,
    "exp2": lambda x: mpmath.power(2, x), "exp10": lambda x: mpmath.power(10, x), "sin": mpmath.sin,
    "cos": mpmath.cos, "tan": mpmath.tan, "atan": mpmath.atan, "asinh": mpmath.asinh, "cosh": mpmath.cosh,
    "sinh": mpmath.sinh, "normcdf": mpmath.ncdf, "sinpi": mpmath.sinpi, "cospi": mpmath.cospi,
    "floor": mpmath.floor, "ceil": mpmath.ceil, "fabs": abs, "cyl_bessel_i1": lambda x: mpmath.besseli(1, x),
    "cyl_bessel_i0": lambda x: mpmath.besseli(0, x), "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
}  # fmt: skip
_POSITIVE = {
    "log": mpmath.log, "log2": lambda x: mpmath.log(x, 2), "log10": mpmath.log10, "log1p": mpmath.log1p,
    "sqrt": mpmath.sqrt, "rsqrt": lambda x: 1 / mpmath.sqrt(x), "lgamma": mpmath.loggamma,
    "rcbrt": lambda x: 1 / mpmath.cbrt(x),
}  # fmt: skip


def call(name: str, *arguments: Any) -> Any:
    return triton_libdevice.call(f"__nv_{name}", [np.asarray(a) for a in arguments])


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
@pytest.mark.parametrize("name", [*_REAL, *_POSITIVE])
def test_single_precision_is_within_an_ulp(name: str) -> None:
    truth = _REAL.get(name) or _POSITIVE[name]
    x = np.array([v for v in SAMPLES if name in _REAL or v > 0], np.float32)
    got = call(f"{name}f" if name not in ("fabs",) else "fabsf", x)
    expected = np.array([float(truth(mpmath.mpf(float(v)))) for v in x]).astype(np.float32)
    assert got.dtype == np.float32
    np.testing.assert_array_max_ulp(got, expected, maxulp=1)


def test_double_precision_keeps_its_dtype() -> None:
    got = call("tanh", np.array([0.5]))
    assert got.dtype == np.float64 and abs(got[0] - float(mpmath.tanh(0.5))) < 1e-16


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("powf", ([2.0], [0.5]), 2.0**0.5),
        ("fmodf", ([-7.5], [2.0]), -1.5),
        ("remainderf", ([7.5], [2.0]), -0.5),
        ("fdimf", ([3.0], [5.0]), 0.0),
        ("roundf", ([-2.5], None), -3.0),
        ("rintf", ([2.5], None), 2.0),
        ("saturatef", ([7.0], None), 1.0),
        ("hypotf", ([3.0], [4.0]), 5.0),
        ("logbf", ([6.0], None), 2.0),
        ("fast_fdividef", ([1.0], [4.0]), 0.25),
        ("copysignf", ([3.0], [-0.0]), -3.0),
    ],
)
def test_other_functions(name: str, arguments: Any, expected: float) -> None:
    got = call(name, *(np.array(a, np.float32) for a in arguments if a is not None))
    assert got[0] == np.float32(expected)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("float2int_rn", np.float32(2.5), 2),
        ("float2int_rz", np.float32(-2.7), -2),
        ("float2int_ru", np.float32(2.1), 3),
        ("double2uint_rd", np.float64(-1.0), 0),
        ("float2ll_rn", np.float32(1e30), 2**63 - 1),
        ("llroundf", np.float32(-2.5), -3),
        ("int2float_rn", np.int32(16777217), 16777216.0),
        ("float_as_int", np.float32(1.0), 0x3F800000),
        ("clz", np.int32(1), 31),
        ("ffs", np.int32(8), 4),
        ("popc", np.int32(-1), 32),
        ("brev", np.int32(1), -(2**31)),
        ("isnanf", np.float32("nan"), 1),
    ],
)
def test_conversions_and_bit_functions(name: str, value: Any, expected: float) -> None:
    assert call(name, np.array([value]))[0] == expected


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.sampled_from([8, 16, 32, 64]))
@settings(max_examples=100, deadline=None)
def test_high_words_of_products(x: int, y: int, bits: int) -> None:
    x, y = x % 2**bits, y % 2**bits
    unsigned = [np.array([v], np.dtype(f"u{bits // 8}")) for v in (x, y)]
    assert int(triton_libdevice.multiply_high(*unsigned)[0]) == (x * y) >> bits
    if bits >= 32:
        signed = [v.view(np.dtype(f"i{bits // 8}")) for v in unsigned]
        product = int(signed[0][0]) * int(signed[1][0])
        assert int(call("mulhi" if bits == 32 else "mul64hi", *signed)[0]) == product >> bits


def test_an_unknown_function_is_refused_by_name() -> None:
    with pytest.raises(CandidateRefusedError, match="libdevice function __nv_fadd_rz is not available"):
        call("fadd_rz", np.zeros(1, np.float32), np.zeros(1, np.float32))
