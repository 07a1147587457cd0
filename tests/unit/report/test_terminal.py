"""A report is short when all is well, and says what, where and how to repeat when not."""

from __future__ import annotations

import io
import math
import subprocess
import sys
from typing import Any

import pytest
from rich.console import Console

from gpuemu.model.record import Record, Report
from gpuemu.model.verdict import Adequacy, Flag, Status, WorstElement
from gpuemu.report.terminal import render_notes, render_report
from report_builders import make_case, make_minimal, make_record, make_report, make_run


def rendered(report: Report, **options: Any) -> str:
    buffer = io.StringIO()
    render_report(report, Console(file=buffer, width=40), **options)
    return buffer.getvalue()


def failing(*records: Record, **changes: Any) -> Report:
    return make_report(Status.FAIL, (make_record(0), *records), **changes)


def test_a_pass_is_two_lines() -> None:
    lines = rendered(make_report()).splitlines()
    assert lines == [
        "softmax_triton  op softmax, cpu, seed 18446744073709551615, 2 cases in 1.5 s",
        "PASS  2 of 2 cases within the bound; the plan rejects zeros, input, mean and constant",
    ]


def test_the_asked_profile_is_in_the_header() -> None:
    assert ", profile P2, " in rendered(make_report(run=make_run(profile="P2")))


def test_the_verdict_line_of_a_failure_counts() -> None:
    text = rendered(failing(make_record(1, Status.FAIL), make_record(2, Status.ERROR), make_record(3)))
    assert "\nFAIL  2 of 4 cases, 2 passed; first failure at case 2\n" in text


def test_the_worst_element_is_decimal_hexadecimal_and_in_units() -> None:
    text = rendered(failing(make_record(1, Status.FAIL, hint="only the tail (1 of 33)")))
    assert "worst     output 0 at [1, 32]\n" in text
    assert "actual    1.25  0x1.4p+0\n" in text
    assert "expected  0.1   0x1.999999999999ap-4\n" in text
    assert "error     4.82e+06 x bound (+-2.38e-07), 1.54e+08 ulp\n" in text
    assert "hint      only the tail (1 of 33)\n" in text


def test_nan_and_scalar_index_are_shown_plainly() -> None:
    worst = WorstElement(1, (), math.nan, 0.5, 0.0, math.inf, math.inf)
    text = rendered(failing(make_record(1, Status.FAIL, kind="nonfinite", worst=worst)))
    assert "output 1 at []" in text
    assert "actual    nan\n" in text
    assert "error     inf x bound (+-0), inf ulp\n" in text


def test_the_minimal_case_is_an_aligned_table_with_the_replay_command_last() -> None:
    original = make_record(1, Status.FAIL)
    small = make_case(dims={"R": 1, "N": 3}, layouts={"x": "row_gap", "weight": "contiguous"},
                      value_classes={"x": "bell", "weight": "uniform"})  # fmt: skip
    minimal = make_minimal(make_record(1, Status.FAIL, small), original)
    lines = rendered(failing(original, minimal=minimal)).splitlines()
    start = lines.index(f"minimal failing case  shrunk from case {original.case.id} in 23 runs")
    assert lines[start + 1 : start + 6] == [
        "  dims      R=1  N=3",
        "  dtype     float32",
        "  params    eps=1e-06",
        "  inputs    x       row_gap     bell",
        "            weight  contiguous  uniform",
    ]
    assert lines[-1] == f"replay  gpuemu replay 20261201-031500-3f9a {small.id}"


def test_without_shrinking_the_first_failing_case_is_shown() -> None:
    text = rendered(failing(make_record(1, Status.FAIL), make_record(2, Status.FAIL)))
    assert "first failing case  case 2 of the plan\n  dims      R=2  N=33\n" in text


def test_a_run_that_was_not_kept_offers_no_replay_command() -> None:
    text = rendered(failing(make_record(1, Status.FAIL)), stored=False)
    assert "gpuemu replay" not in text
    assert text.endswith("replay  not possible with --no-store\n")


def test_kinds_are_grouped_in_the_order_of_their_first_failure() -> None:
    strided, offset = (make_case(seed=s, layout=name) for s, name in enumerate(("strided", "offset")))
    text = rendered(
        failing(
            make_record(1, Status.FAIL, strided, kind="layout"),
            make_record(2, Status.FAIL, kind="value"),
            make_record(3, Status.FAIL, offset, kind="layout"),
            make_record(4, Status.ERROR, message="RuntimeError: boom (k.py:3)"),
            make_record(5, Status.FAIL, kind="guard:mutation", message="input x was overwritten"),
        )
    )
    assert (
        "  layout          2 cases, first at 2  wrong only on non-contiguous inputs: offset and strided\n"
        "  value            1 case, first at 3  2 of 66 elements outside the bound\n"
        "  error            1 case, first at 5  RuntimeError: boom (k.py:3)\n"
        "  guard:mutation   1 case, first at 6  input x was overwritten\n"
    ) in text


def test_a_precision_failure_names_the_loosest_profile_needed_and_how_to_accept_it() -> None:
    kinds = [
        make_record(i, Status.FAIL, kind="precision", looser_profile=name)
        for i, name in enumerate(("P1", "P2", "P1"), start=1)
    ]
    text = rendered(failing(*kinds))
    assert "behaves like P2 (eager: every intermediate in the storage dtype)" in text
    assert "accept it with --profile P2" in text


def test_tf32_comes_with_its_mend() -> None:
    text = rendered(failing(make_record(1, Status.FAIL, kind="precision", looser_profile="PT")))
    assert 'behaves like tf32; mend: tl.dot(..., input_precision="ieee")' in text


def test_a_kernel_wrong_elsewhere_is_not_told_to_loosen_its_profile() -> None:
    records = [
        make_record(1, Status.FAIL, kind="value"),
        make_record(2, Status.FAIL, kind="precision", looser_profile="P2"),
    ]
    text = rendered(failing(*records))
    assert "these alone would pass within P2" in text
    assert "accept it" not in text


def test_flags_and_unsupported_cases_are_warnings_and_a_pass_stays_a_pass() -> None:
    records = (
        make_record(0),
        make_record(1, flags=("nan_semantics",), message="3 of 66 elements should be NaN"),
        make_record(2, flags=("generic_bound", "suspicious"), generic=("aten.erfinv",)),
        make_record(3, Status.UNSUPPORTED, message="ValueError: N must be even"),
    )
    lines = rendered(make_report(Status.PASS, records)).splitlines()
    assert lines[1].startswith("PASS  3 of 4 cases")
    assert lines[2] == "unsupported in 1 case: ValueError: N must be even"
    assert lines[3] == "warning: generic_bound in 1 case: judged with a bound by generic rule for aten.erfinv"
    assert lines[4] == "warning: nan_semantics in 1 case: 3 of 66 elements should be NaN"
    assert lines[5].startswith("warning: suspicious in 1 case: ")


def test_a_plan_that_accepts_zeros_says_that_a_pass_would_say_nothing() -> None:
    report = make_report(Status.INCONCLUSIVE, adequacy=Adequacy(("input",), ("zeros",), ("mean",)))
    assert rendered(report).splitlines()[1] == (
        "INCONCLUSIVE  the plan rejects input; the plan accepts zeros, so that a pass would say nothing; "
        "mean would be right here"
    )


def test_a_weak_plan_is_a_warning_beside_failures_but_not_where_nothing_ran() -> None:
    weak = Adequacy((), ("zeros",), ())
    failed, crashed = make_record(1, Status.FAIL), make_record(1, Status.ERROR)
    assert "warning: the plan accepts zeros" in rendered(failing(failed, adequacy=weak))
    assert "accepts zeros" not in rendered(make_report(Status.ERROR, (crashed,), adequacy=weak))


@pytest.mark.parametrize("status", [Status.UNSUPPORTED, Status.INCONCLUSIVE, Status.INVALID])
def test_the_message_of_a_run_is_shown_once(status: Status) -> None:
    records = (make_record(0, status, message="because so"), make_record(1, status, message="because so"))
    text = rendered(make_report(status, records, message="because so"))
    assert text.splitlines()[1] == f"{status.upper()}  because so"
    assert text.count("because so") == 1


def test_quiet_is_the_verdict_and_the_replay_command() -> None:
    assert len(rendered(make_report(), quiet=True).splitlines()) == 1
    lines = rendered(failing(make_record(1, Status.FAIL)), quiet=True).splitlines()
    assert [line.split()[0] for line in lines] == ["FAIL", "replay"]


def test_verbose_lists_every_case_and_the_environment() -> None:
    record = make_record(1, Status.FAIL, make_case(layout="strided"), kind="layout")
    text = rendered(failing(record), verbose=True)
    assert f"   2  {record.case.id}  layout" in text
    assert "R=2 N=33, float32" in text
    assert "  python    3.11.2\n" in text


def test_notes_are_separate() -> None:
    report = make_report(run=make_run(notes=("dim B is kept below 4", "w/o guards [default]")))
    assert "kept below" not in rendered(report)
    buffer = io.StringIO()
    render_notes(report, Console(file=buffer, width=20))
    assert buffer.getvalue() == "note: dim B is kept below 4\nnote: w/o guards [default]\n"


def test_nothing_is_wrapped_marked_up_or_coloured_when_piped() -> None:
    message = "[red]index[/red] out of bounds: " + "x" * 200
    text = rendered(failing(make_record(1, Status.ERROR, message=message)))
    assert message in text
    assert "\x1b" not in text


def test_a_terminal_gets_colour_but_a_candidate_cannot_send_it_escapes() -> None:
    buffer = io.StringIO()
    report = failing(make_record(1, Status.ERROR, message="evil \x1b[2J", errors=None, worst=None))
    render_report(report, Console(file=buffer, force_terminal=True, color_system="standard", no_color=False))
    assert "\x1b[1;31mFAIL\x1b[0m" in buffer.getvalue()
    assert "\x1b[2J" not in buffer.getvalue()


def test_reports_need_no_array_library() -> None:
    code = (
        "import sys, gpuemu.report.terminal, gpuemu.report.json_text\n"
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0  # noqa: PLW1510


def test_failing_flags_make_the_verdict_line_a_failure() -> None:
    records = (make_record(0, flags=("suspicious",)), make_record(1, flags=("suspicious", "nan_semantics")))
    report = make_report(Status.PASS, records)
    lines = rendered(report, failing_flags=(Flag.SUSPICIOUS, Flag.NAN_SEMANTICS)).splitlines()
    assert lines[1].startswith(
        "FAIL  strict: suspicious in 2 cases and nan_semantics in 1 case; otherwise pass: 2 of 2 cases within"
    )
    without = rendered(report).splitlines()
    assert (without[1].split()[0], without[2:]) == ("PASS", lines[2:])
