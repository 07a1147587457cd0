"""What an op promises beyond its values; what a verdict holds a kernel to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gpuemu.dtypes import get_dtype
from gpuemu.errors import OpDefinitionError
from gpuemu.model.canonical import encode_float
from gpuemu.model.profile import PROFILES, default_profile

LAYOUTS = ("contiguous", "transposed", "strided", "row_gap", "offset", "expanded")
DEFAULT_LAYOUTS = LAYOUTS[:-1]  # a tensor of stride 0 holds one value: for upstream gradients, not for data
NanPolicy = Literal["report", "propagate", "ignore", "forbid"]
InfinityPolicy = Literal["exact", "saturate"]
_INTEGERS = ("int32", "int64")


@dataclass(frozen=True)
class Contract:
    """What an op promises. Defaults are the sound ones for a float kernel; every record states them.

    profile: arithmetic profile per dtype, or one name for all; None takes P0 for float32 and P1 for 16 bits.
    profile_reason: why a looser profile than the default is right (documented casts of a library, say).
    accumulate: dtype of the accumulators of sums and contractions; float32 by default, as every profile but P2
    and P8 implies. A narrower one (float16) is a permission, a wider one (float64) a promise.
    nan: "report" flags a NaN that the kernel swallows, "propagate" makes it a failure, "ignore" permits it,
    "forbid" fails every NaN that the kernel returns, also where the inputs hold one.
    masked_value: the value due, to the last bit, where the reference gives NaN although no input NaN reaches
    the element (0/0, a fully masked row of an attention); None: such an element is not judged. Where an input
    is infinite, NaN is accepted beside it, unless nan is "forbid".
    infinity: "exact" demands an infinite result to be that infinity; "saturate" accepts the largest finite
    number of its sign as well. Of a format without infinities (float8_e4m3fn), "exact" accepts both results of
    an overflow that the OCP 8-bit specification names, NaN and the largest number; "saturate" the latter alone.
    signed_zero: whether the sign of a zero is part of the answer, where rounding cannot change it.
    stable: among equal scores, the first by position is selected (argmax, top-k, sort).
    mutates: inputs that the kernel may overwrite (outputs may alias them); aliases: inputs that outputs may
    share memory with, unwritten (a view).
    layouts: layouts that the op promises to accept; None means `DEFAULT_LAYOUTS`.
    empty: whether zero-sized dims are within the domain when a Dim allows 0.
    deterministic: two calls on the same inputs give the same bits. Where it is not promised, each call must be
    right and the two may differ by twice the bound, so on exact inputs not at all (ORACLE.md section 7).
    batch_invariant: dims of which a slice, run alone, gives the same bits as within the batch.
    """

    profile: str | Mapping[str, str] | None = None
    profile_reason: str = ""
    accumulate: str = "float32"
    nan: NanPolicy = "report"
    masked_value: float | None = None
    infinity: InfinityPolicy = "exact"
    signed_zero: bool = False
    stable: bool = False
    mutates: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    layouts: tuple[str, ...] | None = None
    empty: bool = False
    deterministic: bool = True
    batch_invariant: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.nan not in ("report", "propagate", "ignore", "forbid"):
            raise OpDefinitionError(f"Contract(nan={self.nan!r}): use report, propagate, ignore or forbid")
        if self.infinity not in ("exact", "saturate"):
            raise OpDefinitionError(f"Contract(infinity={self.infinity!r}): use exact or saturate")
        if self.accumulate not in _INTEGERS and not get_dtype(self.accumulate).is_float:
            raise OpDefinitionError(
                f"Contract(accumulate={self.accumulate!r}): use a float dtype, int32 or int64"
            )
        self._check_names()
        self._check_promises()

    def _check_names(self) -> None:
        for what in ("mutates", "aliases", "batch_invariant", "layouts"):
            names = getattr(self, what)
            if isinstance(names, str):
                raise OpDefinitionError(f"Contract({what}={names!r}): give a tuple of names, ({names!r},)")
            if names and len(set(names)) < len(names):
                raise OpDefinitionError(f"Contract({what}={tuple(names)}) names one of them twice")
        if self.layouts is not None and not self.layouts:
            raise OpDefinitionError("Contract(layouts=()) accepts no input; None takes the default ones")
        unknown = [layout for layout in self.layouts or () if layout not in LAYOUTS]
        if unknown:
            raise OpDefinitionError(f"Contract(layouts=…) names {unknown}; known: {', '.join(LAYOUTS)}")

    def _check_promises(self) -> None:
        """Promises that contradict one another."""
        value = self.masked_value
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise OpDefinitionError(f"Contract(masked_value={value!r}): use a number, or None for no promise")
        if value is not None and math.isnan(value):
            raise OpDefinitionError("Contract(masked_value=nan): NaN is no value to hold a kernel to; use None")
        both = [name for name in self.mutates if name in self.aliases]
        if both:
            raise OpDefinitionError(
                f"Contract: {both} stand in mutates and in aliases, which promises them unwritten; keep one"
            )
        if self.batch_invariant and not self.deterministic:
            raise OpDefinitionError(
                "Contract(batch_invariant=…, deterministic=False): a slice cannot give the bits of its batch "
                "where two calls may differ; drop one of the two"
            )
        profiles = [self.profile] if isinstance(self.profile, str) else (self.profile or {}).values()
        coarse = [name for name in profiles if name in PROFILES and PROFILES[name].has_coarse_accumulators]
        if coarse and self.accumulate == "float64":
            raise OpDefinitionError(
                f"Contract(profile={coarse[0]!r}, accumulate='float64'): that profile permits coarser "
                "accumulators, so the promise would not hold; drop one of the two"
            )

    def profile_for(self, dtype: str) -> str:
        """Name of the profile that cases of this dtype are judged under."""
        if isinstance(self.profile, str):
            return self.profile
        if self.profile is not None and dtype in self.profile:
            return self.profile[dtype]
        return default_profile(dtype)

    def to_json(self) -> dict[str, Any]:
        """Every promise as plain JSON values, defaults included, for the record."""
        document: dict[str, Any] = {}
        for name, value in vars(self).items():
            if isinstance(value, float):
                document[name] = encode_float(value)
            elif isinstance(value, tuple):
                document[name] = list(value)
            else:
                document[name] = dict(value) if isinstance(value, Mapping) else value
        return document


DEFAULT_CONTRACT = Contract()
