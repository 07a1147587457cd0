"""Going on with a run that was interrupted: the same plan, without the cases that have a record."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from gpuemu import environment
from gpuemu.checking import (
    Kept,
    Progress,
    make_campaign,
    make_report,
    require_device,
    run_plan,
    shrink_first_failure,
)
from gpuemu.errors import UsageError
from gpuemu.fingerprint import FingerprintObserver
from gpuemu.model.record import WORKER, Report
from gpuemu.planning.plan import make_plan
from gpuemu.relating import judge_alone, relate
from gpuemu.replay import find_subject
from gpuemu.run.worker import Limits, WorkerCaller
from gpuemu.store.sqlite import Store
from gpuemu.subject import hide


def resume(
    run_id: str,
    *,
    store: Path | None = None,
    shrink: bool = True,
    protect: bool = True,
    progress: Progress | None = None,
) -> Report:
    """Finish a recorded run.

    Args:
        run_id: an id, a unique prefix or "latest". store: its folder; None takes the configured one.
        shrink, protect, progress: as of `gpuemu.check`.

    Raises:
        UsageError: no such run, or kernel, op or plan are no longer what they were.
    """
    started = time.perf_counter()
    folder = store or environment.get_store_path()
    with ExitStack() as stack:
        kept = stack.enter_context(Store(folder))
        run, _ = kept.load_run(run_id)
        done = kept.load_records(run.id)
        require_device(run.device)
        request = dict(run.request)
        if not request:
            raise UsageError(f"run {run.id} was recorded by a gpuemu that could not resume; check anew")
        guards, limits = tuple(request.pop("guards")), Limits(timeout_s=request.pop("timeout_s"))
        worker = None
        if run.mode == WORKER:
            worker = stack.enter_context(WorkerCaller(run.device, limits, hide(folder, run.target), protect))
            worker.start()
        subject = find_subject(run, run.device, worker)
        loaded, caller = subject.load(run.device, worker)
        if subject.digest_source(loaded) != run.source_digest:
            raise UsageError(f"{run.target} has changed since run {run.id}; check it anew")
        plan = make_plan(subject.op, seed=run.seed, device=run.device, strategy=run.strategy, **request)
        if plan.digest != run.plan_digest:
            raise UsageError(f"this gpuemu plans other cases than run {run.id} had; check anew")
        fingerprint = FingerprintObserver()
        campaign = make_campaign(
            subject.op, loaded, run.device, run.profile, guards, caller=caller, observers=(fingerprint,),
            constants=run.constants, relate=relate, rigorous=run.rigorous,
            judge_alone=None if run.reference else judge_alone, repeats=run.repeats,
        )  # fmt: skip
        records = run_plan(campaign, plan, Kept(kept, run), done, progress)
        arithmetic = fingerprint.summarise()
        minimal = shrink_first_failure(campaign, records) if shrink else None
        report = make_report(run, records, minimal, time.perf_counter() - started)
        report = replace(report, fingerprint=arithmetic)
        Kept(kept, run).finish(report)
    return report
