"""Work that goes on after the call has returned (HACKS.md 33 and 34; ORACLE.md section 12.9).

On a device the first read is a copy queued on the caller's current stream, as a consumer's kernel would be;
then the device is waited for and read again. On the CPU the second read waits a little if the call left
threads behind. Both reads must agree.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from gpuemu.model.observation import GuardFinding
from gpuemu.run.guards.repeat import same_bits

NAME = "late_work"
PATIENCE_S = 0.05


def read_first(outputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """What a consumer would find: copies made on the current stream, with nothing waited for."""
    return tuple(output.clone() for output in outputs)


def compare(
    outputs: Sequence[torch.Tensor], first: Sequence[torch.Tensor], is_busy: bool
) -> GuardFinding | None:
    """The finding, if outputs changed after the call returned.

    Args:
        first: as `read_first` gave them. is_busy: the call left threads behind on the CPU.
    """
    if any(output.is_cuda for output in outputs):
        torch.cuda.synchronize()
    elif is_busy:
        time.sleep(PATIENCE_S)
    changed = [n for n, pair in enumerate(zip(outputs, first, strict=True)) if not same_bits(*pair)]
    if not changed:
        return None
    return GuardFinding(NAME, f"output {changed[0]} went on changing after the call had returned")
