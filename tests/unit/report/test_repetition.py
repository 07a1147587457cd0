"""Verdicts are compared with their kind; the command line's tests cover the rest of the text."""

from __future__ import annotations

from dataclasses import replace

from gpuemu.model.verdict import Status
from gpuemu.report.repetition import describe_verdict, repetition_lines
from report_builders import make_record, make_run, make_verdict


def test_a_failure_of_another_kind_is_not_reproduced() -> None:
    recorded = make_record(0, Status.FAIL, kind="layout")
    repeated = make_record(0, Status.FAIL, kind="value")
    last = list(repetition_lines(make_run(), recorded, repeated))[-1]
    assert last.plain == "NOT REPRODUCED  recorded fail (layout), now fail (value)"


def test_inputs_decide_before_verdicts() -> None:
    recorded = make_record(0)
    other = replace(recorded, inputs_sha256="f" * 64)
    assert list(repetition_lines(make_run(), recorded, other))[-1].plain.startswith("INPUTS DIFFER")


def test_verdicts_in_words() -> None:
    assert describe_verdict(make_verdict(Status.FAIL, kind="guard:alias")) == "fail (guard:alias)"
    assert describe_verdict(make_verdict(Status.ERROR)) == "error"
    assert describe_verdict(make_verdict(Status.PASS)) == "pass"
