"""The rules of ORACLE.md section 2.3, a file per family; importing a family registers its rules."""

from __future__ import annotations

from importlib import import_module

FAMILIES = (
    "movement",
    "strided",
    "exact",
    "comparison",
    "arithmetic",
    "power",
    "transcendental",
    "contraction",
    "reduction",
    "product",
    "gathered",
    "extreme",
    "softmax",
    "normalisation",
    "attention",
    "loss",
    "cast",
    "backward",
    "backward_rows",
    "backward_moves",
    "backward_contraction",
    "factory",
    "composite",
    "inverse",
    "gamma",
    "bessel",
    "scan",
    "scattered",
    "distance",
    "integers",
    "indices",
)


def load_rules() -> None:
    """Fill the table of rules."""
    for family in FAMILIES:
        import_module(f"gpuemu.reference.rules.{family}")
