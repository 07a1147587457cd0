"""Verdicts and records survive JSON, NaN and infinities included."""

from __future__ import annotations

import json
import math

from gpuemu.model.canonical import canonical_json
from gpuemu.model.case import Case
from gpuemu.model.record import Record
from gpuemu.model.verdict import ErrorDistribution, Flag, Status, Verdict, WorstElement

VERDICT = Verdict(
    status=Status.FAIL,
    kind="precision",
    message="m",
    profile="P0",
    looser_profile="PT",
    worst=WorstElement(0, (1, 2), math.nan, 1.5, 1e-7, math.inf, -math.inf),
    errors=ErrorDistribution(10, 9, 2, math.inf, 3.0, 4.0),
    flags=(Flag.SUSPICIOUS,),
    hint="h",
    rejected_predictors=("zeros",),
    generic=("aten.foo.default",),
)


def test_record_round_trip() -> None:
    case = Case("o", {"N": 1}, "float32", {"x": "contiguous"}, {"x": "bell"}, {}, 3)
    record = Record(4, case, VERDICT, "a" * 64, None, 0.25)
    back = Record.from_json(json.loads(canonical_json(record.to_json())))
    assert math.isnan(back.verdict.worst.actual)  # type: ignore[union-attr]
    assert canonical_json(back.to_json()) == canonical_json(record.to_json())
    assert back.verdict.status is Status.FAIL
    assert back.verdict.errors == VERDICT.errors


def test_empty_fields_are_left_out() -> None:
    assert Verdict(Status.PASS).to_json() == {"status": "pass"}
    assert Verdict.from_json({"status": "pass"}) == Verdict(Status.PASS)
