"""Checking one kernel against one op: plan, campaign, records, shrinking, report."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpuemu import environment
from gpuemu.audit import AuditObserver
from gpuemu.campaign import Campaign, Settings
from gpuemu.confirmation import confirm
from gpuemu.errors import StoreError, UnsupportedEnvironmentError, UsageError
from gpuemu.exactness import is_exact
from gpuemu.fingerprint import FingerprintObserver
from gpuemu.model.calibration import load_calibration
from gpuemu.model.candidate import Candidate
from gpuemu.model.case import Plan
from gpuemu.model.observation import REPEATS
from gpuemu.model.op import Op
from gpuemu.model.profile import get_profile
from gpuemu.model.record import INLINE, WORKER, Minimal, Record, Report, Run
from gpuemu.model.verdict import Adequacy, Kind, Status
from gpuemu.oracle import adequacy
from gpuemu.oracle.calibration import find_constants, find_drift
from gpuemu.oracle.relations import relations_of
from gpuemu.planning.plan import make_plan
from gpuemu.relating import judge_alone, relate
from gpuemu.run.calling import Caller
from gpuemu.run.guards import FOR_STRANGERS, GUARDS
from gpuemu.run.worker import Limits, Loaded, WorkerCaller
from gpuemu.shrink import shrink as shrink_case
from gpuemu.store.sqlite import Store, make_run_id
from gpuemu.subject import Subject, hide, inline_caller, resolve

Progress = Callable[[int, int, Record], None]
DEFAULT_BUDGET = 64
RUN_ID_ENTROPY_BYTES = 3  # beside the second of the start; the store refuses an id that it holds


def check(
    kernel: Any,
    op: str | Op | None = None,
    *,
    backward: bool = False,
    budget: int = DEFAULT_BUDGET,
    seed: int | None = None,
    device: str = "cpu",
    dtypes: Sequence[str] | None = None,
    layouts: Sequence[str] | None = None,
    value_classes: Sequence[str] | None = None,
    profile: str | None = None,
    rigorous: bool = False,
    strategy: str = "covering",
    guards: Sequence[str] | None = None,
    without_guards: Sequence[str] = (),
    calibration: Path | None = None,
    reference: bool = True,
    audit: bool = False,
    repeats: int = REPEATS,
    runner: str | None = None,
    timeout_s: float = 60.0,
    protect: bool = True,
    store: bool | Path = True,
    shrink: bool = True,
    progress: Progress | None = None,
) -> Report:
    """Check a kernel against an op over a plan of cases.

    Args:
        kernel: a callable, or a target: corpus name, `file.py::function`, `package.module:function`.
        op: an `Op`, a built-in op's name, or `file.py::op`; None takes what `@gpuemu.kernel` says.
        backward: check the gradients that the kernel's own backward pass gives for upstream gradients: it is of
            torch ops or wrapped in a `torch.autograd.Function`. A function that computes gradients itself
            is a kernel of the op "NAME.backward", called with the inputs and then the upstream gradients.
        budget: number of cases. seed: None draws one; it is in the report.
        device: "cpu" or "cuda". dtypes, layouts, value_classes: None takes the op's. Hard value classes such as
            "adversarial" go to one input of a case at a time, in turn (`gpuemu.planning.isolation`).
        profile: judge under this profile instead of the contract's.
        rigorous: bounds that no sequence of roundings exceeds, in place of those that only conspiring ones do.
        calibration: a file that `gpuemu calibrate` wrote; it may widen bounds, and says where errors drift.
        repeats: calls of the kernel on the inputs of each case, which must agree; one more where all answers
            are exact. 1 calls it once.
        reference: False judges by metamorphic relations alone, where float64 cannot be afforded.
        runner: "worker" runs the kernel in a process of its own, which knows no answer; "inline" in this one.
            None takes the worker for a target, and this process, which holds it already, for a callable.
        timeout_s: how long a worker may take over a call. protect: False switches off what the system
            offers against a hostile kernel (`gpuemu doctor` lists it).
        audit: judge the same outputs by other projects' rules too; no verdict changes.
        guards: None takes those of the tier; without_guards: leaves some of them out. store: True keeps
            records under `.gpuemu`, a path elsewhere.
        shrink: make the first failing case smaller. progress: called after each case.

    Raises:
        UsageError: the target, op or an option is wrong. UnsupportedEnvironmentError: no such device.
    """
    started = time.perf_counter()
    require_device(device)
    if profile is not None:
        get_profile(profile)
    if repeats < 1:
        raise UsageError(f"repeats is {repeats}; it must be at least 1")
    if runner not in (None, INLINE, WORKER) or (runner == WORKER and not isinstance(kernel, str)):
        raise UsageError(f"runner {runner!r}: use worker (of a target, not a callable) or inline")
    isolated = isinstance(kernel, str) and runner != INLINE
    with ExitStack() as stack:
        worker = None
        if isolated:
            limits = Limits(timeout_s=timeout_s)
            worker = stack.enter_context(
                WorkerCaller(device, limits, hide(_make_folder(store), kernel), protect)
            )
            worker.start()
        subject = resolve(kernel, op, device, backward, worker)
        relations_of(subject.op)  # an unknown name is said before anything runs
        loaded, caller = subject.load(device, worker)
        # Drawn only now: whatever an import does, it cannot know it.
        seed = secrets.randbits(63) if seed is None else seed
        request: dict[str, Any] = {
            "budget": budget, "dtypes": dtypes, "layouts": layouts, "value_classes": value_classes,
            "block_sizes": subject.read_blocks(), "exact": value_classes is None and is_exact(subject.op),
        }  # fmt: skip
        plan = make_plan(subject.op, seed=seed, device=device, strategy=strategy, **request)
        calibrated = None if calibration is None else load_calibration(calibration)
        constants = {} if calibrated is None else find_constants(calibrated, subject.op, profile)
        fingerprint = FingerprintObserver()
        auditor = AuditObserver(calibrated.published if calibrated is not None else None) if audit else None
        campaign = make_campaign(
            subject.op, loaded, device, profile, guards, without_guards, caller=caller,
            observers=(fingerprint,) if auditor is None else (fingerprint, auditor), constants=constants,
            relate=relate, rigorous=rigorous, judge_alone=None if reference else judge_alone, repeats=repeats,
        )  # fmt: skip
        request = {**request, "guards": campaign.settings.guards, "timeout_s": timeout_s}
        run = _make_run(subject, loaded, plan, campaign.settings, worker, request)
        kept = stack.enter_context(_open_store(store, run))
        records = run_plan(campaign, plan, kept, (), progress)
        arithmetic = fingerprint.summarise()  # before shrinking, whose cases are no part of the plan
        audited = None if auditor is None else auditor.summarise()
        minimal = shrink_first_failure(campaign, records) if shrink else None
        report = make_report(run, records, minimal, time.perf_counter() - started)
        drift = find_drift(records, calibrated, subject.op) if calibrated is not None else ()
        printed = "" if worker is None else worker.printed
        report = replace(report, fingerprint=arithmetic, drift=drift, audit=audited, printed=printed)
        kept.finish(report)
    return report


def run_plan(
    campaign: Campaign, plan: Plan, kept: Kept, done: Sequence[Record], progress: Progress | None
) -> list[Record]:
    """Run the cases of a plan that have no record yet, each kept before the next starts.

    Returns: all records, those of before included, in the plan's order.
    """
    records = {record.index: record for record in done}
    for record in campaign.run(plan, skip=records.keys()):
        kept.append(record)
        records[record.index] = record
        if progress is not None:
            progress(len(records), len(plan.cases), record)
    return [records[index] for index in sorted(records)]


def device_kind(device: str) -> str:
    """ "cpu" or "cuda" of a device such as "cuda:1"."""
    return device.split(":", maxsplit=1)[0]


def require_device(device: str) -> None:
    """Raises: UsageError for an unknown device, UnsupportedEnvironmentError for one that is not there."""
    if device == "cpu":
        return
    if device_kind(device) != "cuda":
        raise UsageError(f"unknown device {device!r}; use cpu or cuda")
    import torch

    if not torch.cuda.is_available():
        raise UnsupportedEnvironmentError(
            f"device {device!r}: torch sees no CUDA device; `gpuemu doctor` says why"
        )


def make_campaign(
    op: Op,
    candidate: Candidate | Loaded,
    device: str,
    profile: str | None = None,
    guards: Sequence[str] | None = None,
    without_guards: Sequence[str] = (),
    caller: Caller | None = None,
    **others: Any,
) -> Campaign:
    """A campaign with the tier's guards; `others` are further fields of `Settings`.

    caller: calls the candidate; None calls it in this process.
    """
    if guards is None:
        # The interpreter runs programs one after another: a second call could only repeat the first.
        interpreted = (
            device == "cpu" and candidate.kind == "triton" and others.get("repeats", REPEATS) <= REPEATS
        )
        guards = tuple(guard for guard in GUARDS if not (interpreted and guard == "repeat"))
    unasked = without_guards if isinstance(caller, WorkerCaller) else (*without_guards, *FOR_STRANGERS)
    guards = tuple(guard for guard in guards if guard not in unasked)
    if caller is None:
        assert isinstance(candidate, Candidate)  # noqa: S101 - what a worker loaded has a caller
        caller = inline_caller(candidate, device)
    settings = Settings(device=device, profile=profile, guards=guards, confirm=confirm, **others)
    return Campaign(op, caller, settings)


def make_report(run: Run, records: Sequence[Record], minimal: Minimal | None, seconds: float) -> Report:
    """The report of a run: its status from its records (DESIGN.md section 4, ORACLE.md section 12.5)."""
    established = [r for r in records if r.verdict.status in (Status.PASS, Status.FAIL)]
    summary = adequacy.summarise([r.verdict for r in established], [r.case.dtype for r in established])
    status, message = _run_status(records, summary)
    return Report(run, status, tuple(records), summary, message, minimal, seconds)


def _run_status(records: Sequence[Record], summary: Adequacy) -> tuple[Status, str]:
    counts = {status: sum(r.verdict.status is status for r in records) for status in Status}
    total = len(records)
    for status in (Status.FAIL, Status.ERROR, Status.INVALID):
        if counts[status]:
            what = {"fail": "wrong", "error": "raised", "invalid": "without a reference"}[status]
            first = next(r for r in records if r.verdict.status is status)
            where = (
                ""
                if status is not Status.INVALID
                else f" (first {first.case.summary()}; a constraint can exclude it)"
            )
            return status, f"{counts[status]} of {total} cases {what}: {first.verdict.message}{where}"
    if not counts[Status.PASS]:
        status = Status.UNSUPPORTED if counts[Status.UNSUPPORTED] == total and total else Status.INCONCLUSIVE
        return status, "no case was judged: " + (records[0].verdict.message if records else "the plan is empty")
    if not summary.is_sufficient:
        names = ", ".join(summary.accepted)
        return (
            Status.INCONCLUSIVE,
            f"the plan would also accept a kernel that returns {names}; raise the budget",
        )
    return Status.PASS, f"{counts[Status.PASS]} of {total} cases passed"


def shrink_first_failure(campaign: Campaign, records: Sequence[Record]) -> Minimal | None:
    failing = [record for record in records if record.verdict.status in (Status.FAIL, Status.ERROR)]
    # An error that a looser profile would cover says least about what is wrong.
    failing.sort(key=lambda record: record.verdict.kind == Kind.PRECISION)
    failing = [record for record in failing if record.verdict.kind != Kind.HANG]  # each try would take as long
    return shrink_case(campaign, failing[0]) if failing else None


def _make_run(
    subject: Subject,
    loaded: Candidate | Loaded,
    plan: Plan,
    settings: Settings,
    worker: WorkerCaller | None,
    request: Mapping[str, Any],
) -> Run:
    now = datetime.now(UTC)
    missing = {} if worker is None else worker.protections.missing
    unprotected = [f"unprotected, no {name}: {why}" for name, why in missing.items()]
    return Run(
        id=make_run_id(now, os.urandom(RUN_ID_ENTROPY_BYTES)),
        target=subject.target,
        op=subject.op.name,
        op_target=subject.op_target,
        op_digest=subject.op.digest,
        plan_digest=plan.digest,
        strategy=plan.strategy,
        seed=plan.seed,
        device=settings.device,
        profile=settings.profile,
        started=now.isoformat(timespec="seconds"),
        source_digest=subject.digest_source(loaded),
        mode=INLINE if worker is None else WORKER,
        protections=() if worker is None else worker.protections.active,
        contract=subject.op.contract.to_json(),
        rigorous=settings.rigorous,
        repeats=settings.repeats,
        constants=settings.constants,
        reference=settings.judge_alone is None,
        request=request,
        environment=environment.describe(),
        notes=(*plan.notes, *loaded.notes, *unprotected),
    )


def _make_folder(store: bool | Path) -> Path | None:
    """The folder of the store, made if need be, so that it can be hidden from a worker."""
    if store is False:
        return None
    folder = environment.get_store_path() if store is True else store
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder}: cannot be made: {error.strerror}") from error
    return folder


class Kept:
    """Where records go: a store's run, or nowhere."""

    def __init__(self, store: Store | None, run: Run) -> None:
        self._store, self._run = store, run

    def append(self, record: Record) -> None:
        if self._store is not None:
            self._store.append(self._run.id, record)

    def finish(self, report: Report) -> None:
        if self._store is not None:
            if report.minimal is not None:
                self._store.append_minimal(self._run.id, report.minimal)
            self._store.finish_run(self._run.id, report.status, report.message)


@contextmanager
def _open_store(store: bool | Path, run: Run) -> Iterator[Kept]:
    if store is False:
        yield Kept(None, run)
        return
    path = environment.get_store_path() if store is True else store
    with Store(path) as opened:
        opened.open_run(run)
        try:
            yield Kept(opened, run)
        except KeyboardInterrupt:
            opened.finish_run(run.id, "interrupted", "stopped by the user; the records so far are kept")
            raise
