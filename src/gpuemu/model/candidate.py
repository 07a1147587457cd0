"""A candidate: the kernel under test and how to call it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Candidate:
    """A loaded kernel.

    name: what reports call it. target: what the user wrote. kind: "triton", "torch", "numpy" or "python".
    op: the op it says it implements, if it says so. speaks_of_devices: whether its call may need a tier's
    redirection of device words. call(*inputs, **params) -> tensor or tuple of tensors.
    source_path, source_digest: the file it came from and its SHA-256, if known. notes: what loading it had to
    redirect on this tier.
    """

    name: str
    target: str
    kind: str
    call: Callable[..., Any] = field(compare=False)
    op: str | None = None
    speaks_of_devices: bool = True
    source_path: str | None = None
    source_digest: str | None = None
    block_sizes: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
