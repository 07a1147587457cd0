"""CUDA's libdevice functions on NumPy arrays, by symbol (`__nv_tanhf`), for interpreted Triton kernels.

Names and meaning: NVIDIA, "libdevice User's Guide", part "Function Descriptions". Single-precision results are
computed in float64 and rounded once, so they are at least as accurate as the device's. The `fast_` variants
give the accurate result: a device may differ by the error that its guide states. Symbols whose rounding
direction differs from nearest, and rare special functions, are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from gpuemu.candidates.triton_numbers import Array, fma, to_integer
from gpuemu.errors import CandidateRefusedError

Function = Callable[..., Any]


def _special(name: str) -> Function:
    function = getattr(torch.special, name)

    def call(*arrays: Array) -> Any:
        with torch._C.DisableTorchFunction():  # not the candidate's call: keep `device_redirect` out
            return function(*(torch.from_numpy(np.array(x, np.float64)) for x in arrays)).numpy()

    return call


def _round_half_away(x: Array) -> Any:
    whole = np.trunc(x)
    return np.copysign(whole + np.where(np.abs(x - whole) >= 0.5, np.sign(x), 0.0), x)


def _integer_power(x: Array, n: Array) -> Any:
    return np.power(x, n.astype(np.float64))


def _sin_pi(x: Array) -> Array:
    # Reduced exactly to |r| <= 1 first: sin(pi r) has period 2.
    reduced = np.fmod(x, 2.0)
    return np.where(reduced == np.trunc(reduced), 0.0 * x, np.sin(np.pi * reduced))


def _cos_pi(x: Array) -> Array:
    reduced = np.abs(np.fmod(x, 2.0))
    return np.where(np.abs(reduced - 1.0) == 0.5, 0.0, np.cos(np.pi * reduced))


def _saturate(x: Array) -> Array:
    return np.where(np.isnan(x), 0.0, np.clip(x, 0.0, 1.0))


def _pairs(text: str) -> dict[str, str]:
    """`a=b c` as {a: b, c: c}: libdevice's name and the library's."""
    return {ours: theirs or ours for ours, _, theirs in (pair.partition("=") for pair in text.split())}


_NUMPY_NAMES = _pairs(
    "floor ceil trunc rint sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh hypot "
    "copysign fmod cbrt fabs=abs asin=arcsin acos=arccos atan=arctan atan2=arctan2 asinh=arcsinh "
    "acosh=arccosh atanh=arctanh "
    "pow=power nearbyint=rint fast_exp=exp fast_log=log fast_log2=log2 fast_log10=log10 fast_sin=sin "
    "fast_cos=cos fast_tan=tan fast_pow=power fast_fdivide=divide"
)
_SPECIAL_NAMES = _pairs(
    "erf erfc erfinv erfcx lgamma=gammaln normcdf=ndtr normcdfinv=ndtri cyl_bessel_i0=i0 cyl_bessel_i1=i1"
)

# Real functions of float64 arrays, by the name without `__nv_` and without the single-precision `f`.
_REAL: dict[str, Function] = {
    **{ours: getattr(np, theirs) for ours, theirs in _NUMPY_NAMES.items()},
    **{ours: _special(theirs) for ours, theirs in _SPECIAL_NAMES.items()},
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "rcbrt": lambda x: 1.0 / np.cbrt(x),
    "exp10": lambda x: np.power(10.0, x),
    "fast_exp10": lambda x: np.power(10.0, x),
    "rhypot": lambda x, y: 1.0 / np.hypot(x, y),
    "norm3d": lambda x, y, z: np.sqrt(x * x + y * y + z * z),
    "rnorm3d": lambda x, y, z: 1.0 / np.sqrt(x * x + y * y + z * z),
    "remainder": lambda x, y: x - y * np.rint(x / y),
    "fdim": lambda x, y: np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x > y, x - y, 0.0)),
    "powi": _integer_power,
    "ldexp": np.ldexp,
    "scalbn": np.ldexp,
    "logb": lambda x: np.where(x == 0, -np.inf, np.where(np.isfinite(x), np.frexp(x)[1] - 1.0, np.abs(x))),
    "sinpi": _sin_pi,
    "cospi": _cos_pi,
    "round": _round_half_away,
    "saturate": _saturate,
}


def multiply_high(x: Array, y: Array) -> Any:
    """Upper half of the product of two integer arrays of one dtype, taken as unsigned bit patterns."""
    bits = 8 * x.dtype.itemsize
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    left, right = (operand.astype(x.dtype, copy=False).view(unsigned) for operand in (x, y))
    if bits < 64:
        wide = np.dtype(f"u{2 * x.dtype.itemsize}")
        high = (left.astype(wide) * right.astype(wide)) >> bits
        return high.astype(unsigned).view(x.dtype)
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    l0, l1, r0, r1 = left & mask, left >> half, right & mask, right >> half
    middle = l1 * r0 + ((l0 * r0) >> half)
    carry = (middle & mask) + l0 * r1
    return (l1 * r1 + (middle >> half) + (carry >> half)).view(x.dtype)


def _signed_multiply_high(x: Array, y: Array) -> Any:
    # Hacker's Delight (2nd edition) section 8-3: signed high word from the unsigned one.
    return multiply_high(x, y) - np.where(x < 0, y, 0) - np.where(y < 0, x, 0)


def _count_leading_zeros(x: Array) -> Array:
    bits = 8 * x.dtype.itemsize
    text = [np.binary_repr(int(v), bits) for v in x.ravel()]
    return np.array([len(t) - len(t.lstrip("0")) for t in text], np.int32).reshape(x.shape)


def _count_ones(x: Array) -> Array:
    bits = 8 * x.dtype.itemsize
    return np.array([np.binary_repr(int(v), bits).count("1") for v in x.ravel()], np.int32).reshape(x.shape)


def _find_first_set(x: Array) -> Array:
    return np.array([(int(v) & -int(v)).bit_length() for v in x.ravel()], np.int32).reshape(x.shape)


def _reverse_bits(x: Array) -> Array:
    bits = 8 * x.dtype.itemsize
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    swapped = [int(np.binary_repr(int(v), bits)[::-1], 2) for v in x.ravel()]
    return np.array(swapped, unsigned).view(x.dtype).reshape(x.shape)


# Functions that keep their operands' dtype, or name their result's dtype themselves.
_EXACT: dict[str, Function] = {
    "clz": _count_leading_zeros,
    "clzll": _count_leading_zeros,
    "ffs": _find_first_set,
    "ffsll": _find_first_set,
    "popc": _count_ones,
    "popcll": _count_ones,
    "brev": _reverse_bits,
    "brevll": _reverse_bits,
    "umulhi": multiply_high,
    "umul64hi": multiply_high,
    "mulhi": _signed_multiply_high,
    "mul64hi": _signed_multiply_high,
    "abs": np.abs,
    "llabs": np.abs,
    "fabsf": np.abs,
    "isnanf": np.isnan,
    "isnand": np.isnan,
    "isinff": np.isinf,
    "isinfd": np.isinf,
    "finitef": np.isfinite,
    "isfinited": np.isfinite,
    "signbitf": np.signbit,
    "signbitd": np.signbit,
    "nextafterf": np.nextafter,
    "nextafter": np.nextafter,
    "fmaf": fma,
    "fma": fma,
    "fmaf_rn": fma,
    "fma_rn": fma,
    "fadd_rn": np.add,
    "dadd_rn": np.add,
    "fsub_rn": np.subtract,
    "dsub_rn": np.subtract,
    "fmul_rn": np.multiply,
    "dmul_rn": np.multiply,
    "fdiv_rn": np.divide,
    "ddiv_rn": np.divide,
    "frcp_rn": np.reciprocal,
    "drcp_rn": np.reciprocal,
    "fsqrt_rn": np.sqrt,
    "dsqrt_rn": np.sqrt,
    "int_as_float": lambda x: x.view(np.float32),
    "uint_as_float": lambda x: x.view(np.float32),
    "float_as_int": lambda x: x.view(np.int32),
    "float_as_uint": lambda x: x.view(np.uint32),
    "longlong_as_double": lambda x: x.view(np.float64),
    "double_as_longlong": lambda x: x.view(np.int64),
}

_INTEGER_OF = {"int": np.int32, "uint": np.uint32, "ll": np.int64, "ull": np.uint64}
_ROUNDINGS: dict[str, Function] = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}


def _convert(name: str) -> Function | None:
    """Conversions such as `float2int_rn`, `int2float_rn`, `double2ull_rz`, `llrintf`."""
    if name in ("llrintf", "llrint", "llroundf", "llround"):
        whole = np.rint if "rint" in name else _round_half_away
        return lambda x: to_integer(whole(x.astype(np.float64)), np.dtype(np.int64))
    head, _, rounding = name.partition("_")
    source, _, target = head.partition("2")
    if source in ("float", "double") and target in _INTEGER_OF and rounding in _ROUNDINGS:
        return lambda x: to_integer(_ROUNDINGS[rounding](x), np.dtype(_INTEGER_OF[target]))
    if target in ("float", "double") and source in (*_INTEGER_OF, "double") and rounding == "rn":
        return lambda x: x.astype(np.float32 if target == "float" else np.float64)
    return None


def call(symbol: str, arguments: list[Array]) -> Array:
    """Apply the libdevice function `symbol` to arrays of one shape.

    Raises:
        CandidateRefusedError: the function is not among those that this tier knows.
    """
    name = symbol.removeprefix("__nv_")
    exact = _EXACT.get(name) or _convert(name)
    if exact is not None:
        return np.asarray(exact(*(np.ascontiguousarray(x) for x in arguments)))
    single = name.endswith("f") and name[:-1] in _REAL
    function = _REAL.get(name[:-1] if single else name)
    if function is None:
        raise CandidateRefusedError(f"libdevice function {symbol} is not available on the CPU tier")
    wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in arguments]
    return np.asarray(function(*wide), np.float32 if single else np.float64)
