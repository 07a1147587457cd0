"""Rule 6: the largest and smallest element, and where it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gpuemu.reference.registry import Call, rule
from gpuemu.reference.rules.exact import is_raw
from gpuemu.reference.rules.windows import has_rival, read_windows
from gpuemu.reference.step import to_operand

Tensor = torch.Tensor


def monotone_error(
    function: Callable[[Tensor], Tensor], value: Tensor, error: Tensor, result: Tensor
) -> Tensor:
    """Two-sided evaluation of a function that is monotone in every element; inf beside an unknown element."""
    highest, lowest = function(value + error), function(value - error)
    deviation = torch.maximum((highest - result).abs(), (lowest - result).abs())
    same = (highest == result) & (lowest == result)
    return torch.where(same, 0.0, deviation).nan_to_num(nan=torch.inf, posinf=torch.inf)


@rule("amax", "amin", "max.default", "min.default")
def extreme(call: Call) -> Any:
    """The largest or smallest element over some dims."""
    value, error = to_operand(call.args[0])

    def reduce(x: Tensor) -> Tensor:
        result: Tensor = call.func(x, *call.args[1:], **call.kwargs)
        return result

    result = reduce(value)
    bound = None if error is None else monotone_error(reduce, value, error, result)
    return call.make(result, bound, is_raw(call.args[0]))


@rule("max.dim", "min.dim")
def extreme_with_place(call: Call) -> Any:
    """The extreme along a dim and where it is; the place is uncertain where another may be as extreme."""
    dim, keepdim = call.args[1], call.argument(2, "keepdim", False)
    value, error = to_operand(call.args[0])
    result, place = call.func(value, dim, keepdim)
    bound = None
    if error is not None:
        bound = monotone_error(lambda x: call.func(x, dim, keepdim)[0], value, error, result)
    if call.name == "min":
        value = -value
    extremes = call.make(result, bound, is_raw(call.args[0]))
    return extremes, _with_doubt(call, value, error, dim, keepdim, place)


@rule("argmax", "argmin")
def place_of_extreme(call: Call) -> Any:
    """Where the extreme is; uncertain where several elements may be it."""
    dim, keepdim = call.argument(1, "dim"), call.argument(2, "keepdim", False)
    value, error = to_operand(call.args[0])
    place = call.func(value, dim, keepdim)
    if call.name == "argmin":
        value = -value
    if dim is not None:
        return _with_doubt(call, value, error, dim, keepdim, place)
    flat_error = None if error is None else error.reshape(-1)
    return _with_doubt(call, value.reshape(-1), flat_error, 0, False, place.reshape(())).reshape(place.shape)


def _with_doubt(
    call: Call, value: Tensor, error: Tensor | None, dim: int, keepdim: bool, place: Tensor
) -> Tensor:
    """The place of the largest element: plain if it has no rivals, else with error inf where it has."""
    highest, lowest = (value, value) if error is None else (value + error, value - error)
    rivals = (~(highest < lowest.amax(dim, keepdim=True))).sum(dim, keepdim=keepdim)
    if not bool((rivals > 1).any()):
        return place
    return call.make(place, torch.where(rivals > 1, torch.inf, 0.0).double())


@rule("sort", "sort.stable", "topk")
def ordered(call: Call) -> Any:
    """The elements in order, or the first k of them, and their places; a place is uncertain beside a rival."""
    value, error = to_operand(call.args[0])
    result, place = call.func(value, *call.args[1:], **call.kwargs)
    bound = None
    if error is not None:
        bound = monotone_error(lambda x: call.func(x, *call.args[1:], **call.kwargs)[0], value, error, result)
    sorted_ = call.make(result, bound, is_raw(call.args[0]))
    doubt = _has_rival(value, error, place, *_order(call))
    if not bool(doubt.any()):
        return sorted_, place
    return sorted_, call.make(place, torch.where(doubt, torch.inf, 0.0).double())


def _order(call: Call) -> tuple[int, bool, bool]:
    """The dim, whether the largest come first, and whether there is an order at all."""
    if call.name == "topk":
        return call.argument(2, "dim", -1), call.argument(3, "largest", True), call.argument(4, "sorted", True)
    if call.func._overloadname == "stable":  # takes all but the tensor by name
        return call.kwargs.get("dim", -1), call.kwargs.get("descending", False), True
    return call.argument(1, "dim", -1), call.argument(2, "descending", False), True


def _has_rival(
    value: Tensor, error: Tensor | None, place: Tensor, dim: int, largest: bool, ordered: bool
) -> Tensor:
    """Whether the interval of a chosen element touches that of another (bool, in the order of `place`).

    Of two elements in order, that is whether the lower one's upper end reaches the higher one's lower end.
    """
    if value.dim() == 0 or not ordered:  # where no order is due, every place is as good as another
        return torch.full(place.shape, value.dim() > 0 and place.shape[dim] > 1, device=place.device)
    value = value if largest else -value
    highest, lowest = (value, value) if error is None else (value + error, value - error)
    chosen_highest, chosen_lowest = highest.gather(dim, place), lowest.gather(dim, place)
    count = place.shape[dim]
    rival = torch.zeros_like(place, dtype=torch.bool)
    if count < value.shape[dim]:
        rest = highest.scatter(dim, place, -torch.inf).amax(dim, keepdim=True)
        rival |= ~(rest < chosen_lowest)
    if count > 1:
        above = chosen_lowest.cummin(dim)[0].narrow(dim, 0, count - 1)
        below = chosen_highest.flip(dim).cummax(dim)[0].flip(dim).narrow(dim, 1, count - 1)
        rival.narrow(dim, 1, count - 1).logical_or_(~(above > chosen_highest.narrow(dim, 1, count - 1)))
        rival.narrow(dim, 0, count - 1).logical_or_(~(below < chosen_lowest.narrow(dim, 0, count - 1)))
    return rival


@rule("max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool3d")
def pooled_extreme(call: Call) -> Any:
    """The largest element of each window; its place is unknown where another may be as large."""
    value, error = to_operand(call.args[0])
    result, place = call.func(value, *call.args[1:], **call.kwargs)
    bound = None
    if error is not None:
        bound = monotone_error(lambda x: call.func(x, *call.args[1:], **call.kwargs)[0], value, error, result)
    if call.name == "max_pool2d_with_indices":
        rival = has_rival(read_windows(call.args[1:]), value, error, result)
    else:
        rival = torch.ones_like(place, dtype=torch.bool)
    followed = call.make(result, bound, is_raw(call.args[0]))
    if not bool(rival.any()):
        return followed, place
    return followed, call.make(place, torch.where(rival, torch.inf, 0.0).double())
