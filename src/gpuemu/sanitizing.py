"""A recorded case under compute-sanitizer: `gpuemu sanitize`, and the process that the tools watch.

    python -m gpuemu.sanitizing STORE RUN CASE DEVICE

calls the kernel on the case's inputs and does nothing else on the device. It has the rights of whoever calls
it: the tools attach to a process that they start, so the worker's protections do not hold here.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuemu import environment
from gpuemu.checking import device_kind, require_device
from gpuemu.errors import GpuemuError, UsageError
from gpuemu.inputs import fill
from gpuemu.model.record import Record, Run
from gpuemu.model.sanitizer import SanitizerResult
from gpuemu.replay import find_subject
from gpuemu.sanitizer import tools
from gpuemu.store.sqlite import Store

DONE = "gpuemu: called"
CALLS = 2  # the second finds what the first left behind


@dataclass(frozen=True)
class Sanitized:
    """What the tools said of a case of a run."""

    run: Run
    record: Record
    results: tuple[SanitizerResult, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "run": self.run.to_json(),
            "record": self.record.to_json(),
            "sanitizer": [result.to_json() for result in self.results],
        }


def sanitize(
    run_id: str,
    case_id: str | None = None,
    store: Path | None = None,
    device: str | None = None,
    names: Sequence[str] = tools.TOOLS,
    program: str | None = None,
    timeout_s: float = tools.TIMEOUT_S,
) -> Sanitized:
    """Run compute-sanitizer's tools on a recorded case.

    Args:
        run_id, case_id: ids or unique prefixes; "latest" is the newest run. case_id: None takes the shrunk
            case, else the smallest that failed, else the smallest.
        store: folder of the store; None takes the configured one. device: None takes the recorded one.
        names: which tools. program: compute-sanitizer's path; None looks for it.
        timeout_s: for each of the two runs of a tool.

    Raises:
        UsageError: no such run or case, or the device is the CPU. StoreError: the store cannot be read.
        UnsupportedEnvironmentError: there is no such device.
    """
    folder = store or environment.get_store_path()
    with Store(folder) as opened:
        run, _ = opened.load_run(run_id)
        record = opened.find_record(run.id, case_id) if case_id else _choose(opened, run)
    device = device or run.device
    if device_kind(device) != "cuda":
        raise UsageError(
            f"run {run.id} was on {run.device}: compute-sanitizer watches CUDA; give --device cuda"
        )
    require_device(device)
    command = [sys.executable, "-m", __name__, str(folder), run.id, record.case.id, device]
    results = tools.sanitize(command, DONE, names, program, timeout_s)
    return Sanitized(run, record, tuple(results))


def _choose(store: Store, run: Run) -> Record:
    minimal = store.load_minimal(run.id)
    if minimal is not None:
        return minimal.record
    records = store.load_records(run.id)
    if not records:
        raise UsageError(f"run {run.id} has no case yet")
    failed = [record for record in records if record.verdict.status in ("fail", "error")]
    return min(failed or records, key=lambda record: math.prod(record.case.dims.values()))


def call_case(folder: Path, run_id: str, case_id: str, device: str) -> None:
    """Call the kernel on a recorded case's inputs and wait for the device.

    Raises:
        StoreError, UsageError: as `sanitize` says. Whatever the kernel raises.
    """
    import torch

    from gpuemu.candidates import loader

    with Store(folder) as opened:
        run, _ = opened.load_run(run_id)
        case = opened.find_record(run.id, case_id).case
    subject = find_subject(run, device, None)
    loaded, _ = subject.load(device)
    inputs = fill.to_device(fill.make_inputs(subject.op, case), device)
    torch.cuda.synchronize(device)
    with loader.tier_scope(device)():
        for _ in range(CALLS):
            loaded.call(*fill.clone(inputs).values(), **case.params)  # type: ignore[union-attr]
            torch.cuda.synchronize(device)
    sys.stdout.write(f"{DONE}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        call_case(Path(sys.argv[1]), *sys.argv[2:])
    except GpuemuError as error:
        sys.exit(f"gpuemu: {error}")
