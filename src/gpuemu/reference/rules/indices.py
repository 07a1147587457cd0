"""What is taken from, or put at, indices of which some are uncertain: unknown there, and as ever elsewhere."""

from __future__ import annotations

from typing import Any

import torch

from gpuemu.reference.bounded import Bounded
from gpuemu.reference.registry import RULES, Call, Rule, overloads, rule
from gpuemu.reference.rules.movement import is_uncertain, to_error, to_plain, to_value
from gpuemu.reference.step import to_operand

Tensor = torch.Tensor
# The position of the index among the arguments.
TAKING = {"gather": 2, "index_select": 2, "embedding": 1, "take": 1}
PUTTING = {
    "scatter.src": 2, "scatter.value": 2, "scatter.reduce": 2, "scatter.value_reduce": 2, "scatter_add": 2,
    "scatter_reduce": 2,
}  # fmt: skip


def taking_rule(previous: Rule, position: int) -> Rule:
    """The rule of an op that takes elements at indices."""

    def take(call: Call) -> Any:
        index = call.args[position]
        if not is_uncertain(index) or is_uncertain(call.args[1:position]):
            return previous(call)
        certain = call.with_changes(
            *call.args[:position], index.value, *call.args[position + 1 :], **call.kwargs
        )
        taken = previous(certain)
        doubt = _spread(call, index.error != 0, taken)
        error = torch.zeros_like(taken.value, dtype=torch.float64) if taken.error is None else taken.error
        return call.make(taken.value, torch.where(doubt, torch.inf, error.double()), taken.raw)

    return take


def _spread(call: Call, doubt: Tensor, taken: Tensor) -> Tensor:
    """The doubt about indices as that about the elements taken."""
    if call.name == "index_select":
        shape = [1] * taken.dim()
        shape[call.args[1]] = -1
        return doubt.reshape(shape).expand(taken.shape)
    if call.name == "embedding":
        return doubt.unsqueeze(-1).expand(taken.shape)
    return doubt.expand(taken.shape)


def index_rule(previous: Rule) -> Rule:
    """The rule of `x[i, j, …]` with tensors of integers."""

    def take(call: Call) -> Any:
        source, indices = call.args
        given = [i for i, index in enumerate(indices) if index is not None]
        uncertain = [indices[i] for i in given if is_uncertain(indices[i])]
        if not uncertain or any(indices[i].dtype in (torch.bool, torch.uint8) for i in given):
            return previous(call)
        taken = previous(call.with_changes(source, to_plain(indices)))
        shape = torch.broadcast_shapes(*(indices[i].shape for i in given))  # type: ignore[no-untyped-call]
        doubt = torch.zeros(shape, dtype=torch.bool, device=taken.device)
        for index in uncertain:
            doubt = doubt | (index.error != 0)
        # The broadcast axes stand where the indices do; first, if those are apart.
        lead = given[0] if given == list(range(given[0], given[-1] + 1)) else 0
        doubt = doubt.reshape((1,) * lead + shape + (1,) * (taken.dim() - lead - len(shape)))
        error = torch.zeros_like(taken.value, dtype=torch.float64) if taken.error is None else taken.error
        return call.make(taken.value, torch.where(doubt, torch.inf, error.double()), taken.raw)

    return take


def putting_rule(previous: Rule | None, position: int) -> Rule:
    """The rule of an op that puts elements at indices along a dim: an uncertain one may hit all of its line."""

    def put(call: Call) -> Any:
        index = call.args[position]
        if not is_uncertain(index) or not isinstance(call.args[0], Tensor):
            return _answer(previous, call)
        into, dim = call.args[0], call.args[1]
        plain = call.with_changes(*call.args[:position], index.value, *call.args[position + 1 :], **call.kwargs)
        result = _answer(previous, plain)
        value, error = to_value(result), to_error(result)
        lines = (index.error != 0).any(dim=dim, keepdim=True) if index.dim() else index.error != 0
        doubt = torch.zeros(into.shape, dtype=torch.bool, device=value.device)
        part = doubt
        for axis, size in enumerate(index.shape):
            part = part if axis == dim % into.dim() else part.narrow(axis, 0, size)
        part.copy_(lines.expand(part.shape))
        if value.dtype == torch.bool:
            return call.make(value, doubt if error is None else doubt | error)
        known = torch.zeros(value.shape, dtype=torch.float64, device=value.device) if error is None else error
        return call.make(value, torch.where(doubt, torch.inf, known.double()))

    return put


@rule("scatter.value")
def scatter_number(call: Call) -> Any:
    """One number put at indices."""
    into, dim, index, number = *call.args[:2], to_value(call.args[2]), call.args[3]
    number, off = to_operand(number, call.arithmetic, into)
    value, error = call.func(to_value(into), dim, index, number), to_error(into)
    if error is None and off is None:
        return call.make(value)
    known = torch.zeros_like(value, dtype=torch.float64) if error is None else error.double()
    return call.make(value, call.func(known, dim, index, 0.0 if off is None else float(off)))


def _answer(previous: Rule | None, call: Call) -> Any:
    """What the other rule says; plain tensors need none."""
    if any(type(a) is Bounded for a in call.args) or any(_is_float(a) for a in call.args):
        return (previous or _resolve(call))(call)
    return call.func(*to_plain(call.args), **call.kwargs)


def _is_float(argument: Any) -> bool:
    return isinstance(argument, Tensor) and argument.is_floating_point()


def _resolve(call: Call) -> Rule:
    from gpuemu.reference.dispatch import resolve  # it imports this module

    return resolve(call.func)


for _name, _position in TAKING.items():
    for _overload in overloads(_name):
        RULES[_overload] = taking_rule(RULES[_overload], _position)
for _overload in overloads("index.Tensor"):
    RULES[_overload] = index_rule(RULES[_overload])
for _name, _position in PUTTING.items():
    for _overload in overloads(_name):
        RULES[_overload] = putting_rule(RULES.get(_overload), _position)
