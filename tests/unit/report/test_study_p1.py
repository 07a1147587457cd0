"""Study P1's table says what its document says."""

from __future__ import annotations

from typing import Any

from gpuemu.report.study_p1 import study_lines
from report_builders import make_record


def kernel(name: str, role: str, first: int | None, score: float = 0.5) -> dict[str, Any]:
    from gpuemu.model.verdict import Status

    row: dict[str, Any] = {"cases": 30, "cases_to_first_failure": first, "worst_passing_score": score}
    if first is not None:
        row["first_failure"] = make_record(first - 1, Status.FAIL).to_json()
    minimal = {"summary": "R=1 N=3, float32", "dims": {}, "verdict": {}} if first else None
    return {"name": name, "role": role, "dtypes": {"float32": row, "float16": row}, "minimal": minimal}


def make_document(detected: int = 1, alarms: int = 0) -> dict[str, Any]:
    return {
        "device_name": "CPU (Triton interpreter)",
        "seed": 3,
        "cases": 120,
        "seconds": 61.4,
        "bugs": {"total": 1, "detected": detected, "max_cases_to_first_failure": 4 if detected else None},
        "controls": {"total": 1, "false_alarms": alarms},
        "baselines": {
            "kernelbench": {"accepted_bugs": ["gelu_buggy"], "rejected_controls": []},
            "strict": {"accepted_bugs": [], "rejected_controls": ["gelu"]},
        },
        "notes": ["dim B is kept below 4"],
        "kernels": [kernel("gelu", "control", None, 0.3123), kernel("gelu_buggy", "buggy", 4)],
    }


def plain(document: dict[str, Any], quiet: bool = False) -> list[str]:
    return [line.plain for line in study_lines(document, quiet)]


def test_the_whole_table() -> None:
    assert plain(make_document()) == [
        "study p1  CPU (Triton interpreter), seed 3, 120 cases in 61 s",
        "gpuemu    1 of 1 bugs found, each within its first 4 cases; 0 of 1 controls flagged",
        "",
        "baseline oracle  bugs accepted  controls rejected  accepted bugs",
        "kernelbench      1 of 1         0 of 1             gelu_buggy",
        "strict           0 of 1         1 of 1             -",
        "",
        "kernel      role     float32     float16     smallest failing case",
        "gelu        control  pass 0.312  pass 0.312  -",
        "gelu_buggy  buggy    value at 4  value at 4  R=1 N=3, float32",
        "",
        "note: dim B is kept below 4",
    ]


def test_quiet_is_the_summary() -> None:
    assert len(plain(make_document(), quiet=True)) == 2


def test_nothing_found_names_no_position() -> None:
    assert plain(make_document(detected=0))[1] == "gpuemu    0 of 1 bugs found; 0 of 1 controls flagged"


def test_a_miss_or_a_false_alarm_is_not_green() -> None:
    styles = [
        str(list(study_lines(document))[1].spans[0].style)
        for document in (make_document(), make_document(detected=0), make_document(alarms=1))
    ]
    assert styles == ["bold green", "bold red", "bold red"]
