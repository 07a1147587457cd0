"""Kinds of input values that strain different parts of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

Shape = Sequence[int]


def _mixed(shape: Shape, generator: torch.Generator) -> torch.Tensor:
    exponents = torch.randint(-20, 20, tuple(shape), generator=generator).double()
    return torch.randn(tuple(shape), generator=generator).double() * 10.0**exponents


def _scaled(scale: float, offset: float = 0.0) -> Callable[[Shape, torch.Generator], torch.Tensor]:
    return lambda shape, generator: torch.randn(tuple(shape), generator=generator).double() * scale + offset


# What published suites draw from, and the classes of ORACLE.md section 4.
ORDINARY: dict[str, Callable[[Shape, torch.Generator], torch.Tensor]] = {
    "normal": _scaled(1.0),
    "uniform": lambda shape, generator: torch.rand(tuple(shape), generator=generator).double() * 20 - 10,
    "offset": _scaled(1.0, 1000.0),
    "large": _scaled(1e3),
    "small": _scaled(1e-3),
    "negative": _scaled(1.0, -50.0),
    "constant": lambda shape, generator: torch.full(tuple(shape), 1.1, dtype=torch.float64),
    "integers": lambda shape, generator: torch.randint(-3, 4, tuple(shape), generator=generator).double(),
}
EXTREME: dict[str, Callable[[Shape, torch.Generator], torch.Tensor]] = {
    "zeros": lambda shape, generator: torch.zeros(tuple(shape), dtype=torch.float64),
    "tiny": _scaled(1e-30),
    "subnormal": _scaled(1e-40),
    "huge": _scaled(1e30),
    "near_overflow": _scaled(1e38),
    "mixed": _mixed,
}
ALL = {**ORDINARY, **EXTREME}


def draw(regime: str, shape: Shape, seed: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Values of a regime in a storage dtype."""
    return ALL[regime](shape, torch.Generator().manual_seed(seed)).to(dtype)
