"""The dtype table: what each storage format can hold, and its name in torch, NumPy and Triton.

Constants follow IEEE 754-2019 (binary16/32/64), the bfloat16 and OCP 8-bit formats as ml_dtypes
documents them. Names are torch's and ml_dtypes' spelling.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from gpuemu.errors import UsageError

if TYPE_CHECKING:
    import torch

Kind = Literal["float", "int", "uint", "bool"]


@dataclass(frozen=True)
class DType:
    """A storage dtype.

    `precision` is the significand's width in bits with the hidden bit (24 for float32, 0 for integers);
    `emin`/`emax` are the exponents of the smallest and largest normal numbers.
    """

    name: str
    kind: Kind
    bits: int
    precision: int = 0
    emin: int = 0
    emax: int = 0
    max: float = 0.0
    has_infinity: bool = True
    triton_name: str = ""

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def itemsize_bytes(self) -> int:
        return (self.bits + 7) // 8

    @property
    def eps(self) -> float:
        """Distance from 1 to the next number: 2^(1-precision)."""
        return 2.0 ** (1 - self.precision)

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of round-to-nearest in the normal range: 2^-precision."""
        return 2.0**-self.precision

    @property
    def smallest_normal(self) -> float:
        return 2.0**self.emin

    @property
    def smallest_subnormal(self) -> float:
        return 2.0 ** (self.emin - self.precision + 1)


def _float(name: str, bits: int, precision: int, emin: int, emax: int, triton_name: str, **kw: Any) -> DType:
    maximum = kw.pop("max", (2.0 - 2.0 ** (1 - precision)) * 2.0**emax)
    return DType(name, "float", bits, precision, emin, emax, maximum, triton_name=triton_name, **kw)


_TABLE = (
    _float("float64", 64, 53, -1022, 1023, "fp64"),
    _float("float32", 32, 24, -126, 127, "fp32"),
    _float("float16", 16, 11, -14, 15, "fp16"),
    _float("bfloat16", 16, 8, -126, 127, "bf16"),
    _float("float8_e4m3fn", 8, 4, -6, 8, "fp8e4nv", max=448.0, has_infinity=False),
    _float("float8_e5m2", 8, 3, -14, 15, "fp8e5"),
    DType("int64", "int", 64, max=2.0**63, triton_name="i64"),
    DType("int32", "int", 32, max=2.0**31 - 1, triton_name="i32"),
    DType("int16", "int", 16, max=2.0**15 - 1, triton_name="i16"),
    DType("int8", "int", 8, max=127.0, triton_name="i8"),
    DType("uint8", "uint", 8, max=255.0, triton_name="u8"),
    DType("bool", "bool", 8, max=1.0, triton_name="i1"),
)
DTYPES: dict[str, DType] = {dtype.name: dtype for dtype in _TABLE}


@cache
def get_dtype(name: str) -> DType:
    """The table row of a dtype name.

    Raises:
        UsageError: the name is not in the table.
    """
    try:
        return DTYPES[name]
    except KeyError:
        known = ", ".join(DTYPES)
        raise UsageError(f"unknown dtype {name!r}; known: {known}") from None


@cache
def torch_dtype(name: str) -> torch.dtype:
    """torch's dtype object for a dtype name."""
    import torch

    get_dtype(name)
    dtype = getattr(torch, name)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"torch.{name} is not a dtype")
    return dtype


@cache
def dtype_name(dtype: torch.dtype) -> str:
    """Our name of a torch dtype (`torch.float32` gives "float32")."""
    return str(dtype).removeprefix("torch.")
