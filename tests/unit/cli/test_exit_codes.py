"""Every way in which a run can end, and the exit code that DESIGN.md section 4 gives it."""

from __future__ import annotations

import pytest

from gpuemu.cli.exit_codes import exit_code, failing_flags, is_built_in, replay_exit_code
from gpuemu.model.verdict import Status
from report_builders import make_record, make_report, make_run

P, F, E, U, INC, INV = (
    Status.PASS,
    Status.FAIL,
    Status.ERROR,
    Status.UNSUPPORTED,
    Status.INCONCLUSIVE,
    Status.INVALID,
)


@pytest.mark.parametrize(
    ("status", "cases", "op_target", "expected"),
    [
        # 0: passed; what the kernel refused or nobody could judge does not spoil a pass
        (P, [P, P], "softmax", 0),
        (P, [P, U, INC], "softmax", 0),
        # 1: a candidate failed, whatever else happened below it in priority
        (F, [P, F], "softmax", 1),
        (E, [E], "softmax", 1),
        (F, [U, INC, F], "k.py::op", 1),
        (INC, [F], "softmax", 1),
        # 4: nothing was established
        (P, [], "softmax", 4),
        (INC, [], "softmax", 4),
        (INC, [P, P], "softmax", 4),  # the plan would accept zeros
        (U, [U, U], "softmax", 4),
        (INC, [U, INC], "softmax", 4),
        # 3: the reference of a built-in op failed; it wins over failing cases
        (INV, [INV], "softmax", 3),
        (INV, [], "softmax", 3),
        (F, [F, INV], "softmax", 3),
        (P, [P, INV], "softmax", 3),
        # 2: the reference of a user's op failed; it wins over failing cases too
        (INV, [INV], "k.py::op", 2),
        (INV, [INV], "package.module:op", 2),
        (INV, [INV], "object softmax", 2),
        (F, [F, INV], "k.py::op", 2),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_exit_code_table(
    status: Status, cases: list[Status], op_target: str, expected: int, strict: bool
) -> None:
    records = tuple(make_record(index, case) for index, case in enumerate(cases))
    report = make_report(status, records, run=make_run(op_target=op_target))
    assert exit_code(report, strict) == expected


@pytest.mark.parametrize(
    ("flag", "strict", "expected"),
    [
        ("suspicious", False, 0),
        ("nan_semantics", False, 0),
        ("generic_bound", False, 0),
        ("suspicious", True, 1),
        ("nan_semantics", True, 1),
        ("generic_bound", True, 0),
    ],
)
def test_flags_count_only_when_strict(flag: str, strict: bool, expected: int) -> None:
    report = make_report(P, (make_record(0), make_record(1, flags=(flag,))))
    assert exit_code(report, strict) == expected


def test_a_strict_flag_wins_over_nothing_established_but_not_over_a_broken_reference() -> None:
    flagged = make_record(0, flags=("suspicious",))
    assert exit_code(make_report(INC, (flagged,)), strict=True) == 1
    assert exit_code(make_report(INC, (flagged, make_record(1, INV))), strict=True) == 3


def test_built_in_ops_are_bare_names() -> None:
    assert is_built_in(make_run(op_target="rmsnorm"))
    assert not any(is_built_in(make_run(op_target=t)) for t in ("a.py::op", "a.b:op", "object rmsnorm"))


@pytest.mark.parametrize(
    ("same_inputs", "same_verdict", "expected"),
    [(True, True, 0), (True, False, 1), (False, True, 3), (False, False, 3)],
)
def test_replay(same_inputs: bool, same_verdict: bool, expected: int) -> None:
    assert replay_exit_code(same_inputs, same_verdict) == expected


@pytest.mark.parametrize(
    ("status", "flags", "expected"),
    [
        (P, ("nan_semantics", "suspicious", "generic_bound"), ("suspicious", "nan_semantics")),
        (INC, ("suspicious",), ("suspicious",)),
        (P, ("generic_bound",), ()),
        (P, (), ()),
        (F, ("suspicious",), ()),
        (INV, ("suspicious",), ()),
    ],
)
def test_failing_flags_are_those_that_alone_decide(
    status: Status, flags: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    report = make_report(status, (make_record(0, status, flags=flags),))
    assert failing_flags(report) == expected
    if expected:
        assert (exit_code(report) != 1, exit_code(report, strict=True)) == (True, 1)
