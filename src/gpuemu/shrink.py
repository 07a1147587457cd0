"""From a failing case to a small one that fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpuemu.model.case import Case
from gpuemu.model.record import Minimal, Record
from gpuemu.model.verdict import Kind, Status, Verdict

if TYPE_CHECKING:
    from gpuemu.campaign import Campaign

PLAIN_VALUE_CLASSES = ("uniform", "bell")


def shrink(campaign: Campaign, failing: Record, max_runs: int = 80, max_s: float = 20.0) -> Minimal:
    """Make a failing case smaller as long as it keeps failing in the same way.

    Passes, repeated until none helps: every layout contiguous, values plain, parameters the op's first, each
    dim as small as it goes (the smallest sizes first, then by bisection). Deterministic for a deterministic
    candidate; stops after `max_runs` calls or `max_s` seconds with the best found so far.
    """
    search = _Search(campaign, failing.verdict, max_runs, time.monotonic() + max_s)
    best = failing.case
    improved = True
    while improved:
        improved = False
        for smaller in _passes(campaign, best, failing.verdict.kind == Kind.LAYOUT):
            if search.fails_alike(smaller):
                best, improved = smaller, True
                break
        else:
            for name in campaign.op.domains:
                smaller = _shrink_dim(search, best, name)
                improved |= smaller.id != best.id
                best = smaller
    record = failing if best.id == failing.case.id else campaign.run_case(best, failing.index)
    if record.verdict.status not in (Status.FAIL, Status.ERROR):
        record = failing
    return Minimal(record, failing.case.id, search.runs)


class _Search:
    """Runs candidate cases, counting, and says whether they fail as the original did."""

    def __init__(self, campaign: Campaign, original: Verdict, max_runs: int, deadline: float) -> None:
        self.campaign, self.original = campaign, original
        self.max_runs, self.deadline = max_runs, deadline
        self.runs = 0
        self._seen: dict[str, bool] = {}

    def fails_alike(self, case: Case) -> bool:
        if case.id in self._seen:
            return self._seen[case.id]
        if self.runs >= self.max_runs or time.monotonic() > self.deadline:
            return False
        if not self.campaign.op.admits(case.dims):
            return False
        self.runs += 1
        verdict = self.campaign.run_case(case).verdict
        alike = (verdict.status, verdict.kind) == (self.original.status, self.original.kind)
        if verdict.status is Status.ERROR:
            alike = alike and _exception_type(verdict) == _exception_type(self.original)
        self._seen[case.id] = alike
        return alike


def _exception_type(verdict: Verdict) -> str:
    return "" if verdict.kind else verdict.message.partition(":")[0]  # crashes have a kind


def _passes(campaign: Campaign, case: Case, keep_layouts: bool) -> Iterator[Case]:
    """Simpler cases of the same sizes, the boldest first."""
    plain: dict[str, Any] = {"value_classes": dict.fromkeys(case.value_classes, PLAIN_VALUE_CLASSES[0])}
    if not keep_layouts:
        plain["layouts"] = dict.fromkeys(case.layouts, "contiguous")
    candidates = [case.with_changes(**plain)]
    for name, layout in case.layouts.items():
        if layout != "contiguous":
            candidates.append(case.with_changes(layouts={**case.layouts, name: "contiguous"}))
    for name, value_class in case.value_classes.items():
        if value_class not in PLAIN_VALUE_CLASSES:
            candidates.append(case.with_changes(value_classes={**case.value_classes, name: "uniform"}))
    for name, values in campaign.op.params.items():
        if case.params[name] != values[0]:
            candidates.append(case.with_changes(params={**case.params, name: values[0]}))
    yield from (candidate for candidate in candidates if candidate.id != case.id)


def _shrink_dim(search: _Search, case: Case, name: str) -> Case:
    """The smallest size of one dim that still fails: small sizes upwards, else bisection downwards."""
    size = case.dims[name]
    domain = search.campaign.op.domains[name]

    def with_size(new: int) -> Case:
        return case.with_changes(dims={**case.dims, name: new})

    if domain.candidates:
        sizes = sorted(s for s in domain.candidates if s < size)
    else:
        low = max(domain.low, 1)
        sizes = [s for s in range(low, min(size, low + 4 * domain.multiple_of)) if domain.contains(s)]
    for smaller in sizes:
        if search.fails_alike(with_size(smaller)):
            return with_size(smaller)
    if domain.candidates:
        return case
    passing, failing = (sizes[-1] if sizes else domain.low), size
    while failing - passing > domain.multiple_of:
        middle = (passing + failing) // 2 // domain.multiple_of * domain.multiple_of
        if middle <= passing:
            break
        if search.fails_alike(with_size(middle)):
            failing = middle
        else:
            passing = middle
    return with_size(failing)
