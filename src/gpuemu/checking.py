"""Checking one kernel against one op: plan, campaign, records, shrinking, report."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpuemu import environment
from gpuemu.audit import AuditObserver
from gpuemu.campaign import Campaign, Settings
from gpuemu.candidates import backward as backward_candidate
from gpuemu.candidates import loader
from gpuemu.candidates.source import make_portable
from gpuemu.confirmation import confirm
from gpuemu.corpus import catalogue
from gpuemu.errors import UnsupportedEnvironmentError, UsageError
from gpuemu.exactness import is_exact
from gpuemu.fingerprint import FingerprintObserver
from gpuemu.model.calibration import load_calibration
from gpuemu.model.candidate import Candidate
from gpuemu.model.case import Plan
from gpuemu.model.observation import REPEATS
from gpuemu.model.op import Op
from gpuemu.model.profile import get_profile
from gpuemu.model.record import BACKWARD_OF, Minimal, Record, Report, Run
from gpuemu.model.verdict import Adequacy, Kind, Status
from gpuemu.ops.backward import SUFFIX, backward_of, differentiable_inputs
from gpuemu.ops.registry import get_op, load_ops
from gpuemu.oracle import adequacy
from gpuemu.oracle.calibration import find_constants, find_drift
from gpuemu.oracle.relations import relations_of
from gpuemu.planning.plan import make_plan
from gpuemu.relating import judge_alone, relate
from gpuemu.run.guards import GUARDS
from gpuemu.shrink import shrink as shrink_case
from gpuemu.store.sqlite import Store, make_run_id

Progress = Callable[[int, int, Record], None]
DEFAULT_BUDGET = 64
RUN_ID_ENTROPY_BYTES = 3  # beside the second of the start; the store refuses an id that it holds


@dataclass(frozen=True)
class Subject:
    """What is checked: the op, how to find it again, and the kernel, loaded or still a target.

    forward: the kernel's op, where `op` is the backward of it and the kernel's own backward pass is checked.
    """

    op: Op
    op_target: str
    kernel: Any
    target: str
    forward: Op | None = None

    def read_blocks(self) -> tuple[int, ...]:
        """Tile sizes, from the source text of a target or of a callable's file."""
        if isinstance(self.kernel, str):
            return loader.read_blocks(self.kernel)
        return loader.from_callable(self.kernel).block_sizes

    def load(self, device: str) -> Candidate:
        """The candidate; a target is imported only here.

        Raises:
            UsageError: its signature does not suit the op.
        """
        candidate = self._load(device)
        loader.check_call(candidate, self.forward or self.op)
        if self.forward is None:
            return candidate
        return backward_candidate.adapt(candidate, self.forward, differentiable_inputs(self.forward))

    def _load(self, device: str) -> Candidate:
        if isinstance(self.kernel, str):
            return loader.load(self.kernel, device)
        loader.prepare_tier(device)
        return loader.from_callable(self.kernel)


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
    calibration: Path | None = None,
    reference: bool = True,
    audit: bool = False,
    repeats: int = REPEATS,
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
        audit: judge the same outputs by other projects' rules too; no verdict changes.
        guards: None takes those of the tier. store: True keeps records under `.gpuemu`, a path elsewhere.
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
    subject = resolve(kernel, op, device, backward)
    relations_of(subject.op)  # an unknown name is said before anything runs
    seed = secrets.randbits(63) if seed is None else seed
    plan = make_plan(
        subject.op, budget=budget, seed=seed, device=device, dtypes=dtypes, layouts=layouts,
        value_classes=value_classes, block_sizes=subject.read_blocks(), strategy=strategy,
        exact=value_classes is None and is_exact(subject.op),
    )  # fmt: skip
    candidate = subject.load(device)
    calibrated = None if calibration is None else load_calibration(calibration)
    constants = {} if calibrated is None else find_constants(calibrated, subject.op, profile)
    fingerprint = FingerprintObserver()
    auditor = AuditObserver(calibrated.published if calibrated is not None else None) if audit else None
    observers = (fingerprint,) if auditor is None else (fingerprint, auditor)
    campaign = make_campaign(
        subject.op, candidate, device, profile, guards, observers=observers, constants=constants,
        relate=relate, rigorous=rigorous, judge_alone=None if reference else judge_alone, repeats=repeats,
    )  # fmt: skip
    run = _make_run(subject, candidate, plan, campaign.settings)
    with _open_store(store, run) as kept:
        records = []
        for record in campaign.run(plan):
            kept.append(record)
            records.append(record)
            if progress is not None:
                progress(len(records), len(plan.cases), record)
        arithmetic = fingerprint.summarise()  # before shrinking, whose cases are no part of the plan
        audited = None if auditor is None else auditor.summarise()
        minimal = _shrink_first_failure(campaign, records) if shrink else None
        report = make_report(run, records, minimal, time.perf_counter() - started)
        drift = find_drift(records, calibrated, subject.op) if calibrated is not None else ()
        report = replace(report, fingerprint=arithmetic, drift=drift, audit=audited)
        kept.finish(report)
    return report


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


def resolve(kernel: Any, op: str | Op | None, device: str, backward: bool = False) -> Subject:
    """Find op and kernel. The kernel's module is imported only if its op must be read from its decorator.

    Args:
        backward: the subject is the kernel's own backward pass, and the op is derived.

    Raises:
        UsageError: nothing of that name, or the op cannot be told.
    """
    if not isinstance(kernel, str):
        target = loader.from_callable(kernel).target
    elif _is_corpus_name(kernel):
        entry = catalogue.find_kernel(kernel)
        target, kernel, op = kernel, f"{entry.path}::{entry.function}", op or entry.op
    else:
        target = make_portable(kernel)
    if op is None:
        candidate = loader.load(kernel, device) if isinstance(kernel, str) else loader.from_callable(kernel)
        op = candidate.op or _refuse_unknown_op(candidate)
    found, op_target = (op, f"object {op.name}") if isinstance(op, Op) else find_op(op)
    if not backward:
        return Subject(found, op_target, kernel, target)
    return Subject(backward_of(found), BACKWARD_OF + op_target, kernel, target, forward=found)


def find_op(text: str) -> tuple[Op, str]:
    """The op that a built-in name or a target says, and how to find it again from another folder.

    `file.py::op.backward` derives the backward of the op, as "softmax.backward" does.

    Raises:
        UsageError: there is none. OpDefinitionError: its backward cannot be derived.
    """
    if ":" not in text:
        return get_op(text), text
    if text.endswith(SUFFIX):
        return backward_of(loader.load_op(text.removesuffix(SUFFIX))), make_portable(text)
    return loader.load_op(text), make_portable(text)


def _is_corpus_name(text: str) -> bool:
    return not (":" in text or "/" in text or text.endswith(".py"))


def _refuse_unknown_op(candidate: Candidate) -> str:
    fitting = loader.propose_ops(candidate, iter(load_ops().values()))[:5]
    hint = f"its signature fits {', '.join(fitting)}" if fitting else "no built-in op fits its signature"
    raise UsageError(
        f"{candidate.name}: which op is it? Give --op NAME or mark it with @gpuemu.kernel(op=NAME); {hint}"
    )


def make_campaign(
    op: Op,
    candidate: Candidate,
    device: str,
    profile: str | None = None,
    guards: Sequence[str] | None = None,
    **others: Any,
) -> Campaign:
    """A campaign with the tier's scope and guards; `others` are further fields of `Settings`."""
    if guards is None:
        # The interpreter runs programs one after another: a second call could only repeat the first.
        interpreted = (
            device == "cpu" and candidate.kind == "triton" and others.get("repeats", REPEATS) <= REPEATS
        )
        guards = tuple(guard for guard in GUARDS if not (interpreted and guard == "repeat"))
    scope = loader.tier_scope(device, candidate)
    settings = Settings(device=device, profile=profile, guards=guards, scope=scope, confirm=confirm, **others)
    return Campaign(op, candidate, settings)


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


def _shrink_first_failure(campaign: Campaign, records: Sequence[Record]) -> Minimal | None:
    failing = [record for record in records if record.verdict.status in (Status.FAIL, Status.ERROR)]
    # An error that a looser profile would cover says least about what is wrong.
    failing.sort(key=lambda record: record.verdict.kind == Kind.PRECISION)
    return shrink_case(campaign, failing[0]) if failing else None


def _make_run(subject: Subject, candidate: Candidate, plan: Plan, settings: Settings) -> Run:
    now = datetime.now(UTC)
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
        source_digest=candidate.source_digest,
        contract=subject.op.contract.to_json(),
        rigorous=settings.rigorous,
        repeats=settings.repeats,
        constants=settings.constants,
        reference=settings.judge_alone is None,
        environment=environment.describe(),
        notes=(*plan.notes, *candidate.notes),
    )


class _Kept:
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
def _open_store(store: bool | Path, run: Run) -> Iterator[_Kept]:
    if store is False:
        yield _Kept(None, run)
        return
    path = environment.get_store_path() if store is True else store
    with Store(path) as opened:
        opened.open_run(run)
        try:
            yield _Kept(opened, run)
        except KeyboardInterrupt:
            opened.finish_run(run.id, "interrupted", "stopped by the user; the records so far are kept")
            raise
