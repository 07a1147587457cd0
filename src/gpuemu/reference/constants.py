"""Numbers as tensors, made once: a new tensor costs as much as an op on a small case."""

from __future__ import annotations

from functools import lru_cache

import torch

from gpuemu.reference.extent import extent_of, mark


@lru_cache(maxsize=4096)
def scalar(number: float) -> torch.Tensor:
    """A float64 tensor of no dims on the CPU, which every device takes as an operand. Never written to."""
    return torch.tensor(number, dtype=torch.float64, device="cpu")


@lru_cache(maxsize=1024)
def both_signs(dims: int, device: torch.device) -> torch.Tensor:
    """(1, -1) along a new first dim, before that many others. Never written to."""
    return torch.tensor((1.0, -1.0), dtype=torch.float64, device=device).view(2, *(1,) * dims)


@lru_cache(maxsize=1024)
def number_tensor(number: float, device: torch.device | None = None) -> torch.Tensor:
    """As `scalar`, on a device, for where an operand must not be on another one. It remembers its number."""
    tensor = torch.full((), number, dtype=torch.float64, device=device or "cpu")
    tensor.known_number = number  # type: ignore[attr-defined]
    mark(tensor, None, extent_of(number, None))
    return tensor
