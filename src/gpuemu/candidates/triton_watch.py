"""Watches the Triton launches of one call of a candidate: guards memory, counts, and can suppress them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gpuemu.candidates import triton_launch
from gpuemu.candidates.triton_guard import AccessLog, Region
from gpuemu.model.observation import GuardFinding


class Watch:
    """What a call's launches did.

    findings: reads, writes and updates beyond every tensor that a launch was given: a few, one a source line.
    unfilled_loads: lines ("softmax.py:24") of loads without `other` that had masked lanes, which were poisoned.
    launches: how many kernels were launched, suppressed ones included.
    """

    def __init__(self, pattern: str = "nan", *, launching: bool = True, regions: Sequence[Region] = ()) -> None:
        self.log = AccessLog(pattern)
        self.launching = launching
        self.regions = regions
        self.launches = 0

    @property
    def findings(self) -> list[GuardFinding]:
        """A finding for each of the first lines that went out of range."""
        return self.log.findings

    @property
    def unfilled_loads(self) -> list[str]:
        """Lines of loads without `other` that had masked lanes, in the order in which they ran."""
        return self.log.unfilled_loads


@contextmanager
def watch(pattern: str, launching: bool = True, regions: Sequence[Region] = ()) -> Iterator[Watch]:
    """Guard and count the interpreted launches made within the block.

    An out-of-range read gives poison and an out-of-range write is left out; masked lanes of a load without
    `other` hold poison.

    Args:
        pattern: "nan", or "large": 1e30 (or the type's largest finite value). Integers hold an odd pattern.
        launching: False suppresses the launches.
        regions: address ranges [start, end) that hold one tensor each inside larger storages (red zones
            around it): a tensor that begins in one may be touched there only.
    """
    current = Watch(pattern, launching=launching, regions=regions)
    with triton_launch.watched_by(current):
        yield current
