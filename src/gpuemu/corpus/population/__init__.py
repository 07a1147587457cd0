"""Known-correct and known-wrong implementations of the built-in ops: what calibrates and scores the oracle.

Written for this purpose, by hand, one function each. Controls differ in formula and in the order of their sums,
as real kernels do; mutants hold one fault each (ORACLE.md section 9, BUGS.md section 1).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from gpuemu.corpus.population.implementation import Implementation

FAMILIES = (
    "elementwise",
    "rows",
    "products",
    "losses",
    "selections",
    "codes",
    "libraries",
    "tilings",
    "compiled",
)

__all__ = ["Implementation", "load_population"]


@cache
def _load_all() -> tuple[Implementation, ...]:
    modules = [import_module(f"gpuemu.corpus.population.{family}") for family in FAMILIES]
    return tuple(implementation for module in modules for implementation in module.IMPLEMENTATIONS)


def load_population(op: str | None = None) -> tuple[Implementation, ...]:
    """Every implementation, or those of one op, controls and mutants; no Triton kernel is imported by this."""
    return tuple(i for i in _load_all() if op is None or i.op == op)
