"""The table of rules: which function propagates values and errors through which aten overload."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from gpuemu.reference.arithmetic import Arithmetic
from gpuemu.reference.bounded import Bounded

if TYPE_CHECKING:
    from gpuemu.reference.dispatch import Evaluation


class Call:
    """One aten call that a rule answers; the arguments may be bounded tensors, plain tensors and numbers."""

    __slots__ = ("args", "evaluation", "func", "kwargs")

    def __init__(
        self, evaluation: Evaluation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.evaluation = evaluation
        self.func = func
        self.args = args
        self.kwargs = kwargs

    @property
    def name(self) -> str:
        """The op's name without namespace and overload ("add")."""
        return str(self.func._schema.name).removeprefix("aten::")

    @property
    def arithmetic(self) -> Arithmetic:
        return self.evaluation.arithmetic

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        """An argument given by position or by name."""
        return self.args[position] if len(self.args) > position else self.kwargs.get(name, default)

    def make(self, value: torch.Tensor, error: torch.Tensor | None = None, raw: bool = False) -> Bounded:
        """A bounded tensor as (part of) the answer."""
        return Bounded(self.evaluation, value, error, raw)

    def follow(self, argument: Any) -> Any:
        """A tensor argument as a bounded one, so that ordinary torch code on it is followed."""
        if isinstance(argument, torch.Tensor) and type(argument) is not Bounded:
            return self.make(argument.double())
        return argument

    def with_changes(self, *args: Any, **kwargs: Any) -> Call:
        """The same call with other arguments."""
        return Call(self.evaluation, self.func, args, kwargs)


Rule = Callable[[Call], Any]
RULES: dict[Any, Rule] = {}
# Overloads that make tensors from numbers: answered by their rule even without a bounded argument.
FACTORIES: set[Any] = set()


def overloads(name: str) -> Iterator[Any]:
    """The functional overloads that `name` means: one ("add.Tensor") or all of an op ("exp").

    A name that this torch does not know gives nothing: ops come and go between versions.
    """
    packet_name, _, overload_name = name.partition(".")
    packet = getattr(torch.ops.aten, packet_name, None)
    if packet is None:
        return
    for known in packet.overloads():
        if overload_name in ("", known):
            overload = getattr(packet, known)
            if not overload._schema.is_mutable:
                yield overload


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the decorated function as the rule of these aten ops (without the `aten::`)."""

    def register(function: Rule) -> Rule:
        for name in names:
            for overload in overloads(name):
                RULES[overload] = function
        return function

    return register


def factory(*names: str) -> Callable[[Rule], Rule]:
    """Register the decorated function as the rule of these ops, which make tensors from numbers."""
    FACTORIES.update(overload for name in names for overload in overloads(name))
    return rule(*names)
