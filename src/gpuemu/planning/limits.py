"""How large a case may be on a tier, and which dims only add programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuemu.model.op import Op


@dataclass(frozen=True)
class Limits:
    """Bounds on a case.

    elements: largest element count of any input, and of a result over any two dims.
    batch: largest product of the dims that only add programs.
    inner: largest size of a dim that is neither such a dim nor any input's last axis. reason: said in the plan.
    """

    elements: int
    batch: int
    inner: int
    reason: str = ""


LIMITS = {
    # Triton's interpreter takes milliseconds per program, so a case should launch about ten.
    "cpu": Limits(
        elements=1 << 15, batch=8, inner=257, reason="Triton's interpreter takes milliseconds a program"
    ),
    "cuda": Limits(elements=1 << 24, batch=1 << 20, inner=1 << 14),
}
# Larger than on the CPU, small enough for a hundred thousand runs in minutes.
DEVICE_LIMITS = Limits(elements=1 << 18, batch=1 << 12, inner=1 << 11)


def many_case_limits(device: str) -> Limits:
    """The limits of a study of very many cases: those of the CPU tier there, `DEVICE_LIMITS` on a device."""
    return LIMITS["cpu"] if device == "cpu" else DEVICE_LIMITS


def batch_dims(op: Op) -> frozenset[str]:
    """Dims that only add programs: declared so, or read off the shapes.

    A dim counts when it is part of every input of the highest rank and never a last axis: the rows of a
    softmax or norm, the batch of a bmm, but not M, N or K of a matmul.
    """
    rank = max(len(tensor.axes) for tensor in op.tensors.values())
    highest = [tensor.axes for tensor in op.tensors.values() if len(tensor.axes) == rank]
    last = {tensor.axes[-1] for tensor in op.tensors.values() if tensor.axes}
    shared = set(highest[0]).intersection(*highest[1:]) - last
    return frozenset(name for name, dim in op.domains.items() if dim.batch or name in shared)


def last_axis_dims(op: Op) -> frozenset[str]:
    """Dims that are, or are part of the expression of, some input's last axis."""
    last = " ".join(tensor.axes[-1] for tensor in op.tensors.values() if tensor.axes)
    return frozenset(name for name in op.domains if name in last)


def fits(op: Op, dims: Mapping[str, int], limits: Limits, batch: frozenset[str]) -> bool:
    """Whether a case with these dims stays within the limits (the domain's smallest sizes always do)."""
    product = 1
    for name in batch:
        product *= max(dims[name], 1)
    smallest = 1
    for name in batch:
        smallest *= max(op.domains[name].low, 1)
    if product > max(limits.batch, smallest):
        return False
    if _count(tuple(sorted(dims.values())[-2:])) > limits.elements:
        return False
    return all(_count(op.shape_of(name, dims)) <= limits.elements for name in op.inputs)


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def describe(limits: Limits, batch: frozenset[str]) -> tuple[str, ...]:
    """The plan's note on what was restricted, or nothing."""
    if not limits.reason:
        return ()
    named = "·".join(sorted(batch))
    rows = f"{named} at most {limits.batch}, " if batch else ""
    return (f"sizes bounded on this tier: {rows}inputs at most {limits.elements} elements ({limits.reason})",)
