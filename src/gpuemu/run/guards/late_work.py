"""Work that goes on after the call has returned (HACKS.md 33 and 34; ORACLE.md section 12.9).

On a device the first read is a copy queued on the caller's current stream, as a consumer's kernel would be;
then the device is waited for and read again. On the CPU the second read waits a little if the call left
threads behind. Both reads must agree.

Every other call on a device has a current stream other than the default one, which is kept busy meanwhile: what
a kernel launches on the default stream all the same comes late, and is seen to.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

import torch

from gpuemu.model.observation import GuardFinding
from gpuemu.run.guards.repeat import same_bits

NAME = "late_work"
PATIENCE_S = 0.05
BUSY_CYCLES = 1_000_000  # half a millisecond at 2 GHz: longer than launching what a consumer would launch


@contextmanager
def on_another_stream(inputs: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """The block's current stream is not the default one, which is busy; on the CPU there is no such thing."""
    device = next((tensor.device for tensor in inputs.values() if tensor.is_cuda), None)
    if device is None:
        yield
        return
    torch.cuda.synchronize(device)  # the inputs were written on the default stream
    with torch.cuda.device(device):
        torch.cuda._sleep(BUSY_CYCLES)  # type: ignore[no-untyped-call]
    with torch.cuda.stream(_stream(device)):
        yield


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """One for all calls: torch's streams do not wait for the default one (cudaStreamNonBlocking)."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


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
