"""torch.compile of the naive controls: for devices, since compiling takes seconds a shape on the CPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpuemu.corpus.population import elementwise, losses, products, rows
from gpuemu.corpus.population.implementation import Function, Implementation

_SOURCES = (
    *elementwise.IMPLEMENTATIONS,
    *rows.IMPLEMENTATIONS,
    *products.IMPLEMENTATIONS,
    *losses.IMPLEMENTATIONS,
)
_NAMES = ("naive", "two_pass", "float32", "halves")


def compiled(function: Function) -> Function:
    """The function compiled for any shape, when it is first called."""
    found: list[Any] = []

    def call(*inputs: Any, **params: Any) -> Any:
        if not found:
            import torch

            found.append(torch.compile(function, dynamic=True))
        return found[0](*inputs, **params)

    return call


def _compile(source: Implementation) -> Implementation:
    return replace(
        source, name=f"compiled_{source.name}", function=compiled(source.function), devices=("cuda",)
    )


IMPLEMENTATIONS: tuple[Implementation, ...] = tuple(
    _compile(source) for source in _SOURCES if source.role == "control" and source.name in _NAMES
)
