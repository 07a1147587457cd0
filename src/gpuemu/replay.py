"""Repeating a recorded case: the same inputs byte for byte, the same verdict."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from gpuemu import environment
from gpuemu.checking import make_campaign, require_device
from gpuemu.errors import UsageError
from gpuemu.model.record import BACKWARD_OF, WORKER, Record, Run
from gpuemu.relating import judge_alone, relate
from gpuemu.run.worker import WorkerCaller
from gpuemu.store.sqlite import Store
from gpuemu.subject import Subject, hide, resolve


@dataclass(frozen=True)
class ReplayResult:
    """A recorded case beside its repetition."""

    run: Run
    recorded: Record
    repeated: Record
    source_changed: bool
    printed: str = ""

    @property
    def same_inputs(self) -> bool:
        return self.recorded.inputs_sha256 == self.repeated.inputs_sha256

    @property
    def same_outputs(self) -> bool:
        return self.recorded.outputs_sha256 == self.repeated.outputs_sha256

    @property
    def same_verdict(self) -> bool:
        old, new = self.recorded.verdict, self.repeated.verdict
        return (old.status, old.kind) == (new.status, new.kind)


def replay(run_id: str, case_id: str, store: Path | None = None, device: str | None = None) -> ReplayResult:
    """Run a recorded case again.

    Args:
        run_id, case_id: ids or unique prefixes; "latest" is the newest run.
        store: folder of the store; None takes the configured one.
        device: None takes the recorded one.

    Raises:
        StoreError: no such run or case. UsageError: kernel or op cannot be found again, or the op changed.
    """
    folder = store or environment.get_store_path()
    with Store(folder) as opened:
        run, _ = opened.load_run(run_id)
        recorded = opened.find_record(run.id, case_id)
    device = device or run.device
    require_device(device)
    with ExitStack() as stack:
        worker = (
            stack.enter_context(WorkerCaller(device, hidden=hide(folder, run.target)))
            if run.mode == WORKER
            else None
        )
        subject = find_subject(run, device, worker)
        loaded, caller = subject.load(device, worker)
        campaign = make_campaign(
            subject.op, loaded, device, run.profile, caller=caller, rigorous=run.rigorous,
            constants=run.constants, relate=relate, judge_alone=None if run.reference else judge_alone,
            repeats=run.repeats,
        )  # fmt: skip
        repeated = campaign.run_case(recorded.case, recorded.index)
        printed = "" if worker is None else worker.printed
    changed = subject.digest_source(loaded) != run.source_digest
    return ReplayResult(run, recorded, repeated, changed, printed)


def find_subject(run: Run, device: str, worker: WorkerCaller | None) -> Subject:
    """What a run checked, found again.

    Raises:
        UsageError: kernel or op cannot be found, or the op changed.
    """
    op_target = run.op_target.removeprefix(BACKWARD_OF)
    if op_target.startswith("object "):
        raise UsageError(
            f"run {run.id} used an op that exists only in the calling program; "
            "put the Op into a file and give op='file.py::name' to replay from the command line"
        )
    if "<locals>" in run.target or run.target.startswith("__main__:"):
        raise UsageError(
            f"run {run.id} checked {run.target}, a function that no module holds; nothing to import"
        )
    subject = resolve(run.target, op_target, device, op_target != run.op_target, worker)
    if subject.op.digest != run.op_digest:
        raise UsageError(
            f"op {run.op!r} has changed since run {run.id}: its schema, contract or reference differs"
        )
    return subject
