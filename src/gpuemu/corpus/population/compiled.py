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
# x * scale - max becomes one FMA there, while max is of rounded products: for finite scores from about 1e9 on
# the rest exceeds what exp takes, and the row is NaN (github.com/pytorch/pytorch/issues/163932, open;
# tests/gpu/test_torch_attention.py shows it). So a compiled softmax of scaled scores is no control.
_SCALED_SOFTMAX = ("attention", "flash_attention")


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
    _compile(source)
    for source in _SOURCES
    if source.role == "control" and source.name in _NAMES and source.op not in _SCALED_SOFTMAX
)
