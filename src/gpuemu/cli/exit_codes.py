"""The one place that decides how a command ends (DESIGN.md section 4).

The highest-priority reason wins, in this order: 130 interrupted, 3 our own or the infrastructure's failure,
2 usage, 1 a candidate failed, 4 nothing was established, 0 passed.
"""

from __future__ import annotations

from gpuemu.errors import (
    EXIT_CANDIDATE_FAILED,
    EXIT_INTERNAL,
    EXIT_NOTHING_ESTABLISHED,
    EXIT_PASSED,
    EXIT_USAGE,
)
from gpuemu.model.record import BACKWARD_OF, Report, Run
from gpuemu.model.verdict import Flag, Status

STRICT_FLAGS = (Flag.SUSPICIOUS, Flag.NAN_SEMANTICS)
SUMMARY = (
    "0 passed, 1 the kernel failed, 2 usage, 3 gpuemu's own failure, 4 nothing established, 130 interrupted"
)


def exit_code(report: Report, strict: bool = False) -> int:
    """The exit code of a run.

    strict makes the flags `suspicious` and `nan_semantics` count as failures.
    """
    statuses = {report.status, *(record.verdict.status for record in report.records)}
    if Status.INVALID in statuses:
        return EXIT_INTERNAL if is_built_in(report.run) else EXIT_USAGE
    if statuses & {Status.FAIL, Status.ERROR} or (strict and set(report.flags) & set(STRICT_FLAGS)):
        return EXIT_CANDIDATE_FAILED
    if report.status is not Status.PASS or not report.records:
        return EXIT_NOTHING_ESTABLISHED
    return EXIT_PASSED


def failing_flags(report: Report) -> tuple[Flag, ...]:
    """The flags that alone make a run fail under strict; none where it fails or is invalid without them."""
    if exit_code(report) not in (EXIT_PASSED, EXIT_NOTHING_ESTABLISHED):
        return ()
    return tuple(flag for flag in STRICT_FLAGS if flag in report.flags)


def is_built_in(run: Run) -> bool:
    """Whether the op is one of gpuemu's own: its target is a bare name, not file.py::name or module:name."""
    op_target = run.op_target.removeprefix(BACKWARD_OF)
    return ":" not in op_target and " " not in op_target


def replay_exit_code(same_inputs: bool, same_verdict: bool) -> int:
    """The exit code of a repeated case: other input bytes are our own failure, another verdict is not."""
    if not same_inputs:
        return EXIT_INTERNAL
    return EXIT_PASSED if same_verdict else EXIT_CANDIDATE_FAILED
