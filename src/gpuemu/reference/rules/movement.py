"""Rule 1: ops that move, copy or select elements do the same to values and errors."""

from __future__ import annotations

from typing import Any

import torch

from gpuemu.reference.bounded import Bounded, ViewStep, no_error
from gpuemu.reference.extent import carry, extent_of, mark, union
from gpuemu.reference.registry import Call, Rule, rule

Tensor = torch.Tensor

VIEWS = (
    "alias", "detach", "diagonal", "expand", "lift_fresh", "permute", "select.int", "slice.Tensor",
    "split.Tensor", "split_with_sizes", "squeeze", "t", "transpose.int", "unbind.int", "unfold", "unsqueeze",
    "view",
)  # fmt: skip
COPIES = (
    "_reshape_alias", "_unsafe_index.Tensor", "_unsafe_view", "clone", "embedding", "flip", "gather", "im2col",
    "index.Tensor", "index_select", "lift", "lift_fresh_copy", "masked_select", "pixel_shuffle",
    "reflection_pad1d", "reflection_pad2d", "repeat", "repeat_interleave.self_Tensor", "replication_pad1d",
    "replication_pad2d", "roll", "rot90", "take", "tril", "triu",
)  # fmt: skip
JOINS = ("cat", "stack")
# Overwriting part of a tensor with another: the positions of the two data arguments.
SCATTERS = {
    "scatter.src": (0, 3), "slice_scatter": (0, 1), "select_scatter": (0, 1),
    "diagonal_scatter": (0, 1), "index_copy": (0, 3), "masked_scatter": (0, 2), "copy": (0, 1),
}  # fmt: skip


def to_value(argument: Any) -> Any:
    """The plain tensor of a data argument, floats as float64; anything else unchanged."""
    if type(argument) is Bounded:
        return argument.value
    if isinstance(argument, Tensor) and argument.is_floating_point():
        return argument.double()
    return argument


def to_error(argument: Any) -> Tensor | None:
    """The error of a data argument; None where it is exact."""
    return argument.error if type(argument) is Bounded else None


def is_uncertain(argument: Any) -> bool:
    """Whether a rounding may change an index or mask."""
    if isinstance(argument, (list, tuple)):
        return any(is_uncertain(item) for item in argument)
    error = to_error(argument)
    return error is not None and bool((error != 0).any())


def to_plain(argument: Any) -> Any:
    """An argument, or a list of them, without bounded tensors."""
    if isinstance(argument, (list, tuple)):
        return [to_plain(item) for item in argument]
    return to_value(argument)


def uncertain_like(value: Tensor) -> Tensor:
    """The error of elements about which nothing is known."""
    if value.dtype == torch.bool:
        return torch.ones_like(value)
    return torch.full(value.shape, torch.inf, dtype=torch.float64, device=value.device)


@rule(*COPIES)
def move(call: Call) -> Any:
    """One data argument (the first); its error moves along."""
    source, others = call.args[0], to_plain(call.args[1:])
    held, error = to_value(source), to_error(source)
    value = call.func(held, *others, **call.kwargs)
    if is_uncertain(call.args[1:]):
        error = uncertain_like(value)
    else:
        moved = None if error is None else call.func(error, *others, **call.kwargs)
        carry(held, error, value, moved)
        error = moved
    return call.make(value, error, type(source) is Bounded and source.raw)


@rule(*VIEWS)
def view(call: Call) -> Any:
    """A view of the first argument, or several; writes go through."""
    source, others = call.follow(call.args[0]), call.args[1:]
    value, error = source.value, source.error
    moved = call.func(value, *others, **call.kwargs)
    if error is not None and call.name == "view":
        moved_error = error.reshape(moved.shape)  # the error may have other strides than the value
    else:
        moved_error = None if error is None else call.func(error, *others, **call.kwargs)
    if isinstance(moved, Tensor):
        return source.make_view(_view_step(call), moved, moved_error)
    errors = [None] * len(moved) if moved_error is None else moved_error
    return [
        source.make_view(_view_step(call, i), v, e) for i, (v, e) in enumerate(zip(moved, errors, strict=True))
    ]


def _view_step(call: Call, output: int | None = None) -> ViewStep:
    """The function that takes the same view (or that output of several) of another tensor."""

    def step(tensor: Tensor) -> Tensor:
        moved: Any = call.func(tensor, *call.args[1:], **call.kwargs)
        result: Tensor = moved if output is None else moved[output]
        return result

    return step


@rule(*JOINS)
def join(call: Call) -> Any:
    """cat and stack: a list of data arguments."""
    parts, others = call.args[0], call.args[1:]
    values = [to_value(part) for part in parts]
    errors = [to_error(part) for part in parts]
    value, error = call.func(values, *others, **call.kwargs), None
    if any(e is not None for e in errors):
        explicit = [no_error(v) if e is None else e for v, e in zip(values, errors, strict=True)]
        error = call.func(explicit, *others, **call.kwargs)
    mark(value, error, union(extent_of(*operand) for operand in zip(values, errors, strict=True)))
    return call.make(value, error, all(type(part) is Bounded and part.raw for part in parts))


@rule("constant_pad_nd")
def pad(call: Call) -> Any:
    """Padding with a constant, which is exact."""
    source, widths = call.args[0], call.args[1]
    value, error = call.func(to_value(source), *call.args[1:], **call.kwargs), to_error(source)
    raw = type(source) is Bounded and source.raw and call.argument(2, "value", 0) == 0
    return call.make(value, None if error is None else call.func(error, widths), raw)


def make_scatter(target: int, source: int) -> Rule:
    """The rule of an op that overwrites elements of one data argument by those of another."""

    def scatter(call: Call) -> Any:
        data = call.args[target], call.args[source]
        others = [None if i in (target, source) else to_plain(a) for i, a in enumerate(call.args)]

        def overwrite(into: Tensor, new: Tensor) -> Tensor:
            arguments = list(others)
            arguments[target], arguments[source] = into, new.to(into.dtype)
            result: Tensor = call.func(*arguments, **call.kwargs)
            return result

        values, errors = [to_value(a) for a in data], [to_error(a) for a in data]
        value, error = overwrite(*values), None
        if is_uncertain([a for i, a in enumerate(call.args) if i not in (target, source)]):
            error = uncertain_like(value)
        elif any(e is not None for e in errors):
            error = overwrite(*(no_error(v) if e is None else e for v, e in zip(values, errors, strict=True)))
        return call.make(value, error, all(type(a) is Bounded and a.raw for a in data))

    return scatter


for _name, (_target, _source) in SCATTERS.items():
    rule(_name)(make_scatter(_target, _source))
