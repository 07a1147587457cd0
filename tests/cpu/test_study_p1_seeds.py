"""Study P1 as a user runs it, for ten seeds: every bug found early, no control flagged (the slow tier)."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_study_p1_finds_every_bug_and_flags_no_control(seed: int) -> None:
    command = [sys.executable, "-m", "gpuemu", "study", "p1", "--device", "cpu", "--seed", str(seed), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    document = json.loads(done.stdout)
    assert document["bugs"]["total"] == document["bugs"]["detected"] == 10
    assert document["bugs"]["max_cases_to_first_failure"] <= 8
    assert document["controls"]["total"] == 16
    assert document["controls"]["false_alarms"] == 0
    baselines = {"allclose_1e-5_1e-2", "allclose_1e-2_1e-2", "allclose_1e-4_1e-4", "kernelbench"}
    assert set(document["baselines"]) == baselines
    assert document["cases"] == 26 * 3 * 30
    print(f"seed {seed}: {document['bugs']} {document['controls']} in {document['seconds']} s")  # noqa: T201
