"""Casts inside references (ORACLE.md section 12.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from gpuemu.dtypes import DType, dtype_name, get_dtype
from gpuemu.reference.bounded import Bounded
from gpuemu.reference.elementwise import EXACT, elementwise, to_operand
from gpuemu.reference.registry import rule
from gpuemu.reference.rules.comparison import finish, to_bool
from gpuemu.rounding import round_to

if TYPE_CHECKING:
    from gpuemu.reference.dispatch import Evaluation


@rule("_to_copy")
def cast(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """To a float of 32 bits or more: ignored. To 16 bits: a permitted rounding. To fewer or integers: applied."""
    x = args[0] if type(args[0]) is Bounded else evaluation.make(_as_float(args[0]))
    device = kwargs.get("device")
    if device is not None and torch.device(device) != x.device:
        error = None if x.error is None else x.error.to(device)
        x = evaluation.make(x.value.to(device), error, x.raw)
    target = kwargs.get("dtype")
    if target is None or target == x.value.dtype:
        return x.share()
    return convert(evaluation, x, get_dtype(dtype_name(target)))


def _as_float(x: torch.Tensor) -> torch.Tensor:
    return x.double() if x.is_floating_point() else x


def convert(evaluation: Evaluation, x: Bounded, target: DType) -> torch.Tensor:
    """x as the given dtype; its wrapper holds float64 for every float dtype."""
    if target.name == "bool":
        return finish(evaluation, *to_bool(x))
    if not target.is_float:
        return _to_integer(evaluation, x, target)
    if not x.value.is_floating_point():
        value, error = to_operand(x)
        x = evaluation.make(value, error)
    if target.bits >= 32:
        return x.share()
    if target.bits == 16:
        return _permit_rounding(evaluation, x, target)
    return _to_8_bits(evaluation, x, target)


def _permit_rounding(evaluation: Evaluation, x: Bounded, target: DType) -> Bounded:
    """e += u_s |v| and half the smallest subnormal; too large a number may become an infinity."""
    arithmetic = evaluation.arithmetic
    if not arithmetic.cast_rounding or (x.raw and target.name == arithmetic.storage.name):
        return x.share()
    value, error = to_operand(x)
    size = value.abs()
    rounding = size * target.unit_roundoff + target.smallest_subnormal / 2.0
    exact = round_to(value, target.name) == value
    if error is None:
        if bool(exact.all()):
            return x.share()
        rounding = torch.where(exact, 0.0, rounding)
    else:
        rounding += error
    rounding = torch.where(value.isfinite(), rounding, torch.zeros_like(value) if error is None else error)
    overflows = value.isfinite() & (size + rounding > target.max * (1.0 + target.unit_roundoff / 2.0))
    return evaluation.make(value, torch.where(overflows, torch.inf, rounding))


def _to_integer(evaluation: Evaluation, x: Bounded, target: DType) -> torch.Tensor:
    """Truncation, two-sided; numbers that do not fit, NaN and infinities give no known integer."""
    dtype = getattr(torch, target.name)
    value, error = to_operand(x)
    if not x.value.is_floating_point():
        return x.value.to(dtype) if error is None else evaluation.make(x.value.to(dtype), error)
    result = value.to(dtype)
    fits = value.abs() <= target.max
    truncated = elementwise(evaluation, torch.trunc, [(value, error)], EXACT)
    unknown = torch.where(fits, 0.0, torch.inf)
    total = unknown if truncated.error is None else truncated.error + unknown
    return evaluation.make(result, total) if bool((total != 0).any()) else result


def _to_8_bits(evaluation: Evaluation, x: Bounded, target: DType) -> Bounded:
    """Rounding to an 8-bit float, two-sided. Whether what is too large saturates is the kernel's choice."""
    rounded = elementwise(evaluation, lambda t: round_to(t, target.name).double(), [to_operand(x)], EXACT)
    too_large = x.value.abs() > target.max
    if not bool(too_large.any()):
        return rounded
    error = torch.zeros_like(rounded.value) if rounded.error is None else rounded.error
    return evaluation.make(rounded.value, torch.where(too_large, torch.inf, error))
