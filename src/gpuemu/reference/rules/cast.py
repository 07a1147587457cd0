"""Casts inside references (ORACLE.md section 12.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import torch

from gpuemu.dtypes import DType, dtype_name, get_dtype, torch_dtype
from gpuemu.reference.arithmetic import Arithmetic
from gpuemu.reference.bounded import Bounded
from gpuemu.reference.elementwise import elementwise
from gpuemu.reference.errors import UnmappedReferenceError
from gpuemu.reference.registry import Call, rule
from gpuemu.reference.rules.comparison import finish, to_bool
from gpuemu.reference.step import EXACT, to_operand
from gpuemu.rounding import round_to

if TYPE_CHECKING:
    from gpuemu.reference.dispatch import Evaluation


@rule("_to_copy")
def cast(call: Call) -> Any:
    """To a float of 32 bits or more: ignored. To 16: a permitted rounding. To fewer, or integers: applied."""
    x, device, target = call.args[0], call.kwargs.get("device"), call.kwargs.get("dtype")
    if type(x) is not Bounded:
        x = call.make(x.double() if x.is_floating_point() else x)
    if device is not None and torch.device(device) != x.device:
        x = call.make(x.value.to(device), None if x.error is None else x.error.to(device), x.raw)
    if target is None or target == x.value.dtype:
        return x.share()
    if target.is_complex:
        raise UnmappedReferenceError("complex numbers cannot be followed; write it with real ones")
    return convert(call, x, get_dtype(dtype_name(target)))


# Evaluations in which the reference cast something to a dtype wider than its storage (else ignored).
_WIDENED: WeakSet[Evaluation] = WeakSet()


def has_widened(evaluation: Evaluation) -> bool:
    """Whether a storage number may stand in a wider dtype, as far as the reference's own dtypes matter."""
    return evaluation in _WIDENED


def convert(call: Call, x: Bounded, target: DType) -> torch.Tensor:
    """x as the given dtype; its wrapper holds float64 for every float dtype."""
    if target.name == "bool":
        return finish(call, *to_bool(x))
    if not target.is_float:
        return _to_integer(call, x, target)
    if not x.value.is_floating_point():
        x = call.make(*to_operand(x))
    if target.bits >= 32:
        if call.arithmetic.storage.bits < target.bits:
            _WIDENED.add(call.evaluation)
        return x.share()
    return permit_rounding(call.arithmetic, x, target) if target.bits == 16 else _to_8_bits(call, x, target)


def permit_rounding(arithmetic: Arithmetic, x: Bounded, target: DType) -> Bounded:
    """e += u_s |v| and half the smallest subnormal; too large a number may become an infinity."""
    if not arithmetic.cast_rounding or (x.raw and target.name == arithmetic.storage.name):
        return x.share()
    value, error = x.value, x.error
    if error is None and bool((round_to(value, target.name) == value).all()):
        return x.share()
    size, before = value.abs(), torch.zeros_like(value) if error is None else error
    after = size * target.unit_roundoff + target.smallest_subnormal / 2.0 + before
    if error is None:
        after.masked_fill_(round_to(value, target.name) == value, 0.0)
    overflows = size + before >= target.max * (1.0 + target.unit_roundoff / 2.0)
    after.masked_fill_(overflows, torch.inf)
    return x.evaluation.make(value, torch.where(value.isfinite(), after, before))


def _to_integer(call: Call, x: Bounded, target: DType) -> torch.Tensor:
    """Truncation, two-sided; numbers that do not fit, NaN and infinities give no known integer.

    Integers that do not fit wrap, as everywhere; those of which only some wrap give no known integer either.
    """
    dtype = torch_dtype(target.name)
    value, error = to_operand(x)
    result = x.value.to(dtype)
    if x.value.is_floating_point():
        error = elementwise(call.evaluation, torch.trunc, [(value, error)], EXACT).error
    smallest, spread = 0.0 if target.kind == "uint" else -target.max - 1.0, 0.0 if error is None else error
    if target.name == "int64":
        smallest = -target.max
    lowest, highest = value - spread, value + spread
    if x.value.is_floating_point():
        lowest, highest = lowest.trunc(), highest.trunc()  # -0.3 is 0 as an unsigned integer
    fits = (lowest >= smallest) & (highest <= target.max)
    if not x.value.is_floating_point():
        fits |= lowest == highest
    if not bool(fits.all()):
        error = torch.where(fits, 0.0 if error is None else error, torch.inf)
    if error is None or not bool((error != 0).any()):
        return result
    return call.make(result, error)


def _to_8_bits(call: Call, x: Bounded, target: DType) -> Bounded:
    """Rounding to an 8-bit float, two-sided. Whether what is too large saturates is the kernel's choice."""
    rounded = elementwise(call.evaluation, lambda t: round_to(t, target.name).double(), [to_operand(x)], EXACT)
    # From the middle between the largest number and the next, were there one.
    limit = target.max + target.eps * 2.0**target.emax / 2.0
    reach = x.value.abs() if x.error is None else x.value.abs() + x.error
    too_large = ~(reach < limit) & ~x.value.isnan()
    if not bool(too_large.any()):
        return rounded
    error = torch.zeros_like(rounded.value) if rounded.error is None else rounded.error
    return call.make(rounded.value, torch.where(too_large, torch.inf, error))
