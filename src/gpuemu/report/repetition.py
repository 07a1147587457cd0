"""A recorded case beside its repetition."""

from __future__ import annotations

from collections.abc import Iterator

from gpuemu.model.record import Record, Run
from gpuemu.model.verdict import Status, Verdict
from gpuemu.report.failure import case_table, finding_lines, kind_of, row
from gpuemu.report.text import LABEL_STYLE, Line, make_line, shorten_target


def repetition_lines(
    run: Run,
    recorded: Record,
    repeated: Record,
    source_changed: bool = False,
    device: str | None = None,
    quiet: bool = False,
) -> Iterator[Line]:
    """What was recorded, what the repetition gave, and whether they agree.

    device: where it was repeated, None for where it was recorded. quiet leaves the conclusion.
    """
    if not quiet:
        yield from _comparison_lines(run, recorded, repeated, source_changed, device or run.device)
    yield _conclusion_line(recorded, repeated)


def _comparison_lines(
    run: Run, recorded: Record, repeated: Record, source_changed: bool, device: str
) -> Iterator[Line]:
    where = device if device == run.device else f"recorded on {run.device}, repeated on {device}"
    yield make_line(
        (shorten_target(run.target), LABEL_STYLE),
        f"  op {run.op}, {where}, run {run.id}, case {recorded.case.id}",
    )
    yield from case_table(recorded.case)
    yield row("bytes", _compare(recorded.inputs_sha256, repeated.inputs_sha256, "inputs"))
    yield row("", _compare(recorded.outputs_sha256, repeated.outputs_sha256, "outputs"))
    yield row("recorded", describe_verdict(recorded.verdict))
    yield row("repeated", describe_verdict(repeated.verdict))
    yield from finding_lines(repeated.verdict)
    if source_changed:
        yield make_line(("warning: ", "yellow"), "the kernel's source file has changed since the run")


def _compare(old: str | None, new: str | None, what: str) -> str:
    if old == new:
        return f"{what} equal, SHA-256 {old}" if old else f"no {what} either time"
    return f"{what} differ, SHA-256 {old or 'none'} recorded, {new or 'none'} repeated"


def describe_verdict(verdict: Verdict) -> str:
    """Status and kind: "pass", "error", "fail (layout)"."""
    if verdict.status is Status.FAIL:
        return f"{verdict.status} ({kind_of(verdict)})"
    return str(verdict.status)


def _conclusion_line(recorded: Record, repeated: Record) -> Line:
    old, new = describe_verdict(recorded.verdict), describe_verdict(repeated.verdict)
    if recorded.inputs_sha256 != repeated.inputs_sha256:
        text = "the case gave other input bytes than recorded, so that the verdicts cannot be compared"
        return make_line(("INPUTS DIFFER", "bold magenta"), f"  {text}")
    if old == new:
        failed = recorded.verdict.status in (Status.FAIL, Status.ERROR)
        what = "failure" if failed else "verdict"
        return make_line(("REPRODUCED", "bold green"), f"  the recorded {what} happens again: {new}")
    return make_line(("NOT REPRODUCED", "bold red"), f"  recorded {old}, now {new}")
