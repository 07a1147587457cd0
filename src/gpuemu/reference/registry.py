"""The table of rules: which function propagates values and errors through which aten overload."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from gpuemu.reference.dispatch import Evaluation

Rule = Callable[["Evaluation", Any, tuple[Any, ...], dict[str, Any]], Any]
RULES: dict[Any, Rule] = {}


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
