"""A run's report for people: a header, the verdict, and only where something failed, what and how to repeat it.

Plain text where the console is no terminal; nothing is ever wrapped, so that lines can be searched and copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpuemu.model.record import Record, Report
from gpuemu.model.verdict import Adequacy, Flag, Status
from gpuemu.report.audit import audit_lines
from gpuemu.report.calibration import drift_lines
from gpuemu.report.contract_text import contract_rows
from gpuemu.report.distortions import distortion_lines
from gpuemu.report.failure import evidence_lines, kind_lines, kind_of, replay_line
from gpuemu.report.fingerprint import fingerprint_lines
from gpuemu.report.text import (
    FAINT_STYLE,
    LABEL_STYLE,
    Line,
    count,
    format_short,
    join_words,
    make_line,
    shorten_target,
)

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {
    Status.PASS: "bold green",
    Status.FAIL: "bold red",
    Status.ERROR: "bold red",
    Status.UNSUPPORTED: "bold yellow",
    Status.INCONCLUSIVE: "bold yellow",
    Status.INVALID: "bold magenta",
}
_FLAG_MEANINGS: dict[str, str] = {
    Flag.SUSPICIOUS: "passes, but looks wrong",
    Flag.NAN_SEMANTICS: "NaN in the input is lost or spread differently from the reference",
    Flag.NONDETERMINISTIC: "calls on the same inputs differ, within the bound",
    Flag.GENERIC_BOUND: "judged with a bound by generic rule",
}


def render_report(
    report: Report,
    console: Console,
    verbose: bool = False,
    quiet: bool = False,
    stored: bool = True,
    failing_flags: Sequence[Flag] = (),
) -> None:
    """Print a report.

    verbose adds a line per case, the contract and the environment; quiet leaves the verdict and the replay
    command; stored says whether that command can work; failing_flags alone make the run fail (`--strict`).
    """
    verdict = _strict_line(report, failing_flags) if failing_flags else _verdict_line(report)
    lines = _quiet_lines(report, verdict, stored) if quiet else _report_lines(report, verdict, verbose, stored)
    print_lines(lines, console)


def render_notes(report: Report, console: Console) -> None:
    """Print what the planner and the tier restricted: meant for stderr, beside the results."""
    print_lines((make_line((f"note: {note}", FAINT_STYLE)) for note in report.run.notes), console)


def print_lines(lines: Iterable[Line], console: Console) -> None:
    """Print lines unwrapped."""
    for line in lines:
        console.print(line, soft_wrap=True)


def _report_lines(report: Report, verdict: Line, verbose: bool, stored: bool) -> Iterator[Line]:
    yield _header_line(report)
    yield verdict
    if report.failures:
        yield from kind_lines(report)
    yield from _remark_lines(report)
    yield from distortion_lines(report.adequacy)
    yield from drift_lines(report.drift)
    if report.audit is not None:
        yield from audit_lines(report.audit)
    if not report.failures:
        yield from fingerprint_lines(report.fingerprint)
    if verbose:
        yield from _verbose_lines(report)
    if report.failures:
        yield make_line()
        yield from evidence_lines(report)
        yield make_line()
        yield replay_line(report, stored)


def _quiet_lines(report: Report, verdict: Line, stored: bool) -> Iterator[Line]:
    yield verdict
    if report.failures:
        yield replay_line(report, stored)


def _header_line(report: Report) -> Line:
    run = report.run
    profile = (f", profile {run.profile}" if run.profile else "") + (", rigorous" if run.rigorous else "")
    facts = f"op {run.op}, {run.device}, seed {run.seed}{profile}, {count(len(report.records), 'case')}"
    return make_line(
        (shorten_target(run.target), LABEL_STYLE), f"  {facts}", (f" in {report.seconds:.1f} s", FAINT_STYLE)
    )


def _verdict_line(report: Report) -> Line:
    return make_line((str(report.status).upper(), _STYLES[report.status]), f"  {_verdict_text(report)}")


def _strict_line(report: Report, flags: Sequence[Flag]) -> Line:
    """The verdict of a run that only its flags make fail, and what it would be without `--strict`."""
    counts = {flag: sum(flag in record.verdict.flags for record in report.records) for flag in flags}
    found = join_words([f"{flag} in {count(number, 'case')}" for flag, number in counts.items()])
    return make_line(
        ("FAIL", _STYLES[Status.FAIL]),
        f"  strict: {found}; otherwise {report.status}: {_verdict_text(report)}",
    )


def _verdict_text(report: Report) -> str:
    total = len(report.records)
    if report.failures:
        counts = Counter(record.verdict.status for record in report.records)
        passed = f", {counts[Status.PASS]} passed" if counts[Status.PASS] else ""
        return (
            f"{len(report.failures)} of {count(total, 'case')}{passed}; "
            f"first failure at case {report.cases_to_first_failure}"
        )
    if report.status is Status.PASS:
        within = sum(record.verdict.status is Status.PASS for record in report.records)
        return f"{within} of {count(total, 'case')} within the bound; {_adequacy_text(report.adequacy)}"
    return report.message or _adequacy_text(report.adequacy)


def _adequacy_text(adequacy: Adequacy) -> str:
    """What the plan would have caught: a test that accepts zeros says nothing about a kernel."""
    parts = []
    if adequacy.rejected:
        parts.append(f"the plan rejects {join_words(adequacy.rejected)}")
    if adequacy.accepted:
        parts.append(f"the plan accepts {join_words(adequacy.accepted)}, so that a pass would say nothing")
    if adequacy.exempt:
        parts.append(f"{join_words(adequacy.exempt)} would be right here")
    return "; ".join(parts) or "no trivial predictor was tried"


def _remark_lines(report: Report) -> Iterator[Line]:
    """What is neither a pass nor a failure, by status, and flags as warnings."""
    for status in (Status.UNSUPPORTED, Status.INCONCLUSIVE, Status.INVALID):
        found = [record for record in report.records if record.verdict.status is status]
        message = found[0].verdict.message if found else ""
        if found and not (report.status is status and message == report.message):
            yield _remark_line(str(status), found, message)
    for flag in report.flags:
        found = [record for record in report.records if flag in record.verdict.flags]
        meaning = found[0].verdict.message or _FLAG_MEANINGS.get(flag, "")
        if flag == Flag.GENERIC_BOUND:
            ops = sorted({name for record in found for name in record.verdict.generic})
            meaning = _FLAG_MEANINGS[flag] + (f" for {join_words(ops)}" if ops else "")
        yield _remark_line(f"warning: {flag}", found, meaning)
    passed = any(record.verdict.status is Status.PASS for record in report.records)
    if report.failures and passed and report.adequacy.accepted:
        yield make_line(("warning: ", "yellow"), _adequacy_text(report.adequacy))


def _remark_line(label: str, found: list[Record], text: str) -> Line:
    separator = ": " if text else ""
    return make_line((label, "yellow"), f" in {count(len(found), 'case')}{separator}{text}")


def _verbose_lines(report: Report) -> Iterator[Line]:
    yield make_line()
    yield make_line(("cases", LABEL_STYLE))
    for position, record in enumerate(report.records, start=1):
        yield _case_line(position, record)
    run = report.run
    promises = contract_rows(run.contract)
    if promises:
        yield make_line(("contract", LABEL_STYLE))
        width = max(len(name) for name, _ in promises)
        for name, meaning in promises:
            yield make_line((f"  {name:<{width}}", FAINT_STYLE), f"  {meaning}")
    yield make_line(("environment", LABEL_STYLE))
    facts = {"run": run.id, "mode": run.mode, "strategy": run.strategy, **run.environment}
    width = max(map(len, facts))
    for name, value in facts.items():
        yield make_line((f"  {name:<{width}}", FAINT_STYLE), f"  {value}")


def _case_line(position: int, record: Record) -> Line:
    verdict = record.verdict
    failed = verdict.status in (Status.FAIL, Status.ERROR)
    what = kind_of(verdict) if failed else str(verdict.status)
    units = f"{format_short(verdict.errors.max_bound_units)} x bound" if verdict.errors else ""
    return make_line(
        (f"  {position:>4}  {record.case.id}", FAINT_STYLE),
        (f"  {what:<13}", "red" if failed else ""),
        f"  {units:<18}  {record.case.summary()}",
    )
