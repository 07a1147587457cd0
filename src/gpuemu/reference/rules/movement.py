"""Rule 1: ops that move, copy or select elements do the same to values and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from gpuemu.reference.bounded import Bounded, no_error
from gpuemu.reference.registry import Rule, rule
from gpuemu.reference.rules.generic import generic

if TYPE_CHECKING:
    from gpuemu.reference.dispatch import Evaluation

VIEWS = (
    "alias", "as_strided", "detach", "diagonal", "expand", "permute", "select.int", "slice.Tensor", "split.Tensor",
    "split_with_sizes", "squeeze", "t", "transpose.int", "unbind.int", "unfold", "unsqueeze", "view", "lift_fresh",
    "view_as_real", "movedim", "narrow", "chunk", "swapaxes",
)  # fmt: skip
COPIES = (
    "_reshape_alias", "_unsafe_view", "clone", "contiguous", "embedding", "flip", "gather", "index.Tensor",
    "index_select", "lift", "lift_fresh_copy", "repeat", "roll", "rot90", "take", "tril", "triu", "masked_select",
    "repeat_interleave.self_int", "repeat_interleave.self_Tensor", "pixel_shuffle", "im2col", "_unsafe_index.Tensor",
    "reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d", "channel_shuffle",
)  # fmt: skip
JOINS = ("cat", "stack")
# Overwriting part of a tensor with another: the positions of the two data arguments.
SCATTERS = {
    "index_put": (0, 2), "scatter.src": (0, 3), "slice_scatter": (0, 1), "select_scatter": (0, 1),
    "diagonal_scatter": (0, 1), "index_copy": (0, 3), "masked_scatter": (0, 2), "copy": (0, 1),
}  # fmt: skip


def to_value(argument: Any) -> Any:
    """The plain tensor of a data argument, floats as float64; anything else unchanged."""
    if type(argument) is Bounded:
        return argument.value
    if isinstance(argument, torch.Tensor) and argument.is_floating_point():
        return argument.double()
    return argument


def to_error(argument: Any) -> torch.Tensor | None:
    """The error of a data argument; None where it is exact."""
    return argument.error if type(argument) is Bounded else None


def plain_indices(arguments: tuple[Any, ...]) -> tuple[tuple[Any, ...], bool]:
    """Arguments with bounded tensors replaced by their values, and whether any of those is uncertain."""
    uncertain = False

    def strip(argument: Any) -> Any:
        nonlocal uncertain
        if isinstance(argument, (list, tuple)):
            return [strip(item) for item in argument]
        if type(argument) is Bounded:
            uncertain |= argument.error is not None
            return argument.value
        return argument

    return tuple(strip(argument) for argument in arguments), uncertain


def uncertain_like(value: torch.Tensor) -> torch.Tensor:
    """The error of elements about which nothing is known."""
    if value.dtype == torch.bool:
        return torch.ones_like(value)
    return torch.full(value.shape, torch.inf, dtype=torch.float64, device=value.device)


def move(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One data argument (the first); its error moves along."""
    source, others = args[0], args[1:]
    others, uncertain = plain_indices(others)
    value = func(to_value(source), *others, **kwargs)
    error = to_error(source)
    if uncertain:
        error = uncertain_like(value)
    elif error is not None:
        error = func(error, *others, **kwargs)
    return evaluation.make(value, error, type(source) is Bounded and source.raw)


def view(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A view of the first argument, or several; writes go through."""
    source = args[0]
    if type(source) is not Bounded:
        source = evaluation.make(to_value(source))
    others = args[1:]
    value, error = source.value, source.error
    moved = func(value, *others, **kwargs)
    moved_error = None if error is None else func(error, *others, **kwargs)
    if isinstance(moved, torch.Tensor):
        return source.make_view(lambda t: func(t, *others, **kwargs), moved, moved_error)
    errors = [None] * len(moved) if moved_error is None else moved_error
    return [
        source.make_view(_select_output(func, others, kwargs, i), v, e)
        for i, (v, e) in enumerate(zip(moved, errors, strict=True))
    ]


def _select_output(
    func: Any, others: tuple[Any, ...], kwargs: dict[str, Any], index: int
) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda tensor: func(tensor, *others, **kwargs)[index]


def join(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """cat and stack: a list of data arguments."""
    parts, others = args[0], args[1:]
    values = [to_value(part) for part in parts]
    value = func(values, *others, **kwargs)
    errors = [to_error(part) for part in parts]
    error = None
    if any(e is not None for e in errors):
        explicit = [no_error(v) if e is None else e for v, e in zip(values, errors, strict=True)]
        error = func(explicit, *others, **kwargs)
    raw = all(type(part) is Bounded and part.raw for part in parts)
    return evaluation.make(value, error, raw)


def pad(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Padding with a constant, which is exact."""
    source = args[0]
    error = to_error(source)
    value = func(to_value(source), *args[1:], **kwargs)
    fill = args[2] if len(args) > 2 else kwargs.get("value", 0)
    raw = type(source) is Bounded and source.raw and fill in (0, 1, float("inf"), -float("inf"))
    return evaluation.make(value, None if error is None else func(error, args[1]), raw)


def make_scatter(positions: tuple[int, int]) -> Rule:
    """The rule of an op that overwrites elements of one data argument by those of another."""

    def scatter(evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if "accumulate" in kwargs or (func is torch.ops.aten.index_put.default and len(args) > 3 and args[3]):
            return generic(evaluation, func, args, kwargs)
        data = [args[i] for i in positions]
        others, uncertain = plain_indices(args)

        def call(target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
            replaced = list(others)
            replaced[positions[0]] = target
            replaced[positions[1]] = source.to(target.dtype)
            result: torch.Tensor = func(*replaced, **kwargs)
            return result

        values = [to_value(argument) for argument in data]
        errors = [to_error(argument) for argument in data]
        value = call(*values)
        error = None
        if uncertain and any(type(a) is Bounded and a.error is not None for a in _indices(args, positions)):
            error = uncertain_like(value)
        elif any(e is not None for e in errors):
            error = call(*(no_error(v) if e is None else e for v, e in zip(values, errors, strict=True)))
        return evaluation.make(value, error, all(type(a) is Bounded and a.raw for a in data))

    return scatter


def _indices(args: tuple[Any, ...], positions: tuple[int, int]) -> list[Any]:
    """The tensors among the arguments that are no data."""
    found: list[Any] = []
    for i, argument in enumerate(args):
        if i not in positions:
            found += argument if isinstance(argument, (list, tuple)) else [argument]
    return found


rule(*VIEWS)(view)
rule(*COPIES)(move)
rule(*JOINS)(join)
rule("constant_pad_nd")(pad)
for _name, _positions in SCATTERS.items():
    rule(_name)(make_scatter(_positions))
