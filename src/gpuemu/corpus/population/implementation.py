"""One implementation of an op, known to be correct or known to be wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

Function = Callable[..., Any]
EAGER_16 = {"float16": "P2", "bfloat16": "P2"}


@dataclass(frozen=True)
class Implementation:
    """A control or a mutant of an op, called as a candidate is: `function(*inputs, **params)`.

    profiles: per dtype, where its arithmetic is looser than the op's default, with the reason. bug, bug_class:
    what is wrong with a mutant, and its letter in BUGS.md. precision: its fault is arithmetic too coarse.
    devices: kinds of device that it runs on. excluded: "device/dtype" pairs in which it is known to be wrong.
    """

    op: str
    name: str
    function: Function = field(compare=False)
    role: Literal["control", "mutant"] = "control"
    kind: Literal["torch", "triton"] = "torch"
    profiles: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    bug: str = ""
    bug_class: str = ""
    precision: bool = False
    devices: tuple[str, ...] = ("cpu", "cuda")
    excluded: tuple[str, ...] = ()

    def runs_on(self, device: str, dtype: str) -> bool:
        """Whether it counts on a kind of device ("cpu", "cuda") in a dtype."""
        return device in self.devices and f"{device}/{dtype}" not in self.excluded


# torch's CPU product of bfloat16 matrices reads one element past each row where the inner size is odd: a
# NaN there turns elements of other rows into NaN (torch 2.13; tests/cpu/test_torch_product.py shows it).
WRONG_ON_CPU = ("cpu/bfloat16",)


# torch's CUDA kernel of rms_norm returns NaN for every element of a row that holds an infinity; the formula and
# torch on the CPU give 0 for the finite ones: 32 of its control runs (torch 2.11 on an H200, study controls).
WRONG_ON_CUDA = ("cuda/float32", "cuda/float16", "cuda/bfloat16")


def eager(
    op: str,
    function: Function,
    composed: bool = False,
    product: bool = False,
    excluded: tuple[str, ...] = (),
) -> Implementation:
    """torch's own op in the storage dtype.

    composed: of several, which round to 16 bits in between. product: with a matrix product among them.
    """
    profiles = EAGER_16 if composed else {}
    reason = "torch composes it of several ops, each of which stores its result" if composed else ""
    excluded = (*excluded, *(WRONG_ON_CPU if product else ()))
    return Implementation(op, "eager", function, profiles=profiles, reason=reason, excluded=excluded)


def in_float32(function: Function) -> Function:
    """The function on float32 copies of its float inputs, its results rounded once to their dtype."""

    def call(*inputs: torch.Tensor, **params: Any) -> Any:
        dtype = next(x.dtype for x in inputs if x.is_floating_point())
        wide = [x.float() if x.is_floating_point() else x for x in inputs]
        result = function(*wide, **params)
        return tuple(y.to(dtype) for y in result) if isinstance(result, tuple) else result.to(dtype)

    return call


def control(op: str, name: str, function: Function) -> Implementation:
    """A correct implementation in float32 arithmetic."""
    return Implementation(op, name, in_float32(function))


def mutant(op: str, name: str, function: Function, bug_class: str, bug: str) -> Implementation:
    """A wrong implementation in float32 arithmetic."""
    return Implementation(op, name, in_float32(function), "mutant", bug=bug, bug_class=bug_class)


def coarse(op: str, name: str, function: Function, bug: str) -> Implementation:
    """A mutant whose fault is low precision; it sees the inputs as they are stored."""
    return Implementation(op, name, function, "mutant", bug=bug, bug_class="H", precision=True)


def truncated(x: torch.Tensor, bits: int) -> torch.Tensor:
    """float32 with its last significand bits cut off, as a store that truncates would leave it."""
    return (x.contiguous().view(torch.int32) & ~((1 << bits) - 1)).view(torch.float32)
