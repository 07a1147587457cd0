"""A calibration as a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu.errors import ConfigurationError
from gpuemu.model.calibration import Calibration, CalibrationEntry, load_calibration
from gpuemu.model.case import Case
from gpuemu.model.op import Dim, Op
from gpuemu.model.record import Record
from gpuemu.model.verdict import ErrorDistribution, Status, Verdict
from gpuemu.oracle.calibration import find_constants, find_drift

ENTRY = CalibrationEntry("normalisation", "P0", "float32", 3000, 8, 0.01, 0.1, 0.2, 0.25, 1.0, 0.001)
RAISED = CalibrationEntry("normalisation", "P1", "float16", 10, 2, 0.1, 0.4, 0.6, 0.7, 1.4, 0.26)
CALIBRATION = Calibration(
    "cpu", 'a "machine"', "gpuemu calibrate", 1, (ENTRY, RAISED), {"softmax float32": 1e-7}, {"torch": "2"}
)
OP = Op("x", {"x": "N"}, {"N": Dim()}, lambda x: x, family="normalisation")


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "cpu.toml"
    path.write_text(CALIBRATION.to_toml())
    assert load_calibration(path) == CALIBRATION


def test_constants_hold_for_the_profile_of_the_op_in_each_dtype() -> None:
    assert find_constants(CALIBRATION, OP) == {"float16": 1.4}
    assert find_constants(CALIBRATION, OP, "P0") == {}


def record(score: float, dtype: str, profile: str, status: Status = Status.PASS) -> Record:
    case = Case("x", {"N": 1}, dtype, {"x": "contiguous"}, {"x": "bell"}, {}, 0)
    errors = ErrorDistribution(1, 1, 0, score, 0.0, 0.0)
    return Record(0, case, Verdict(status, profile=profile, errors=errors), "")


def test_errors_beyond_every_control_are_drift() -> None:
    records = [record(0.1, "float32", "P0"), record(0.3, "float32", "P0"), record(0.45, "float16", "P1")]
    (drift,) = find_drift(records, CALIBRATION, OP)
    assert (drift.dtype, drift.score, drift.largest_control, drift.control_runs) == ("float32", 0.3, 0.25, 3000)
    assert find_drift([record(9.0, "float32", "P0", Status.FAIL)], CALIBRATION, OP) == ()
    assert find_drift([record(0.9, "bfloat16", "P1")], CALIBRATION, OP) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("device = ", "gpuemu calibrate"),
        ('device = "cpu"', "gpuemu calibrate"),
        (CALIBRATION.to_toml().replace("constant = 1.0", "constant = 0.5"), "only be raised"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=message) as caught:
        load_calibration(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        load_calibration(tmp_path / "none.toml")
