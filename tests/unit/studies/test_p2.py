"""Study P2: its items, one row, and the arithmetic of the summary on planted rows."""

from __future__ import annotations

from typing import Any

import pytest

from gpuemu.oracle.baselines.rules import RULES
from gpuemu.studies import p2, p2_page, p2_summary


@pytest.fixture(scope="module")
def runs() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = p2.run_row("softmax/float32/bell/1", "cpu", 0)["runs"]
    return found


def test_items_keep_a_cells_rounds_together_and_leave_purposeful_values_out() -> None:
    items = list(p2.make_items(2, ["relu", "softmax"]))
    assert items[:3] == ["relu/float32/uniform/0", "softmax/float32/uniform/0", "relu/float32/uniform/1"]
    assert len(set(items)) == len(items)
    assert not {item.split("/")[2] for item in items} & set(p2.SPECIAL)


def test_by_default_every_op_with_mutants_takes_part() -> None:
    ops = {item.split("/")[0] for item in p2.make_items(1)}
    assert {"softmax", "matmul", "argmax"} <= ops
    assert "dropout" not in ops  # its answer follows from the kernel's own decisions


def test_controls_are_accepted_and_observable_mutants_rejected(runs: list[dict[str, Any]]) -> None:
    assert {rule for run in runs for rule in run["rules"]} == {r.name for r in RULES if r.name != "p95x1.5"}
    controls = [run for run in runs if run["role"] == "control"]
    assert controls
    assert all(run["observable"] and run["ours"] <= 1.0 for run in controls)
    wrong = [run for run in runs if run["name"] == "zero_padding"]
    assert wrong
    assert all(run["role"] == "mutant" and run["observable"] and run["ours"] > 1.0 for run in wrong)


def test_controls_of_a_case_come_before_its_mutants(runs: list[dict[str, Any]]) -> None:
    first = [run["role"] for run in runs[: len({run["name"] for run in runs})]]
    assert first == sorted(first)
    assert runs[0]["role"] == "control"


def planted(name: str, ours: float, absolute: float | str, observable: bool = True) -> dict[str, Any]:
    role = "control" if name.startswith("control") else "mutant"
    rules = dict.fromkeys((r.name for r in RULES if r.name != "p95x1.5"), 0.5)
    return {
        "name": name, "role": role, "precision": False, "observable": observable, "ours": ours,
        "absolute": absolute, "rules": rules,
    }  # fmt: skip


def test_even_rounds_calibrate_and_odd_ones_are_scored() -> None:
    rows = {
        "relu/float32/bell/0": {"runs": [planted("control", 0.5, 1.0), planted("wrong", 9.0, 9.0)]},
        "relu/float32/bell/1": {"runs": [planted("control", 0.5, 2.0), planted("wrong", 9.0, 1.2)]},
        "relu/float32/adversarial/1": {
            "runs": [planted("wrong", 0.5, "inf"), planted("right", 0.5, 0.0, False)]
        },
    }
    document = p2_summary.summarise(rows)
    assert document["runs"] == 6
    assert document["scored"] == {"controls": 1, "mutants": 3}
    assert document["mutants"] == 2
    # 1.5 x 1.0 on the even round's control: 2.0 of the odd one is an alarm, 1.2 of a mutant is let through.
    calibrated = document["by_values"]["all"][p2_summary.CALIBRATED]
    assert (calibrated["false_alarms"], calibrated["controls"]) == (1, 1)
    assert calibrated["functional"] == {
        "cases": 2, "found": 1, "recall": 0.5, "kernels": 1, "kernels_found": 1,
    }  # fmt: skip
    ours = document["by_values"]["all"][p2_summary.OURS]
    assert (ours["false_alarms"], ours["functional"]["found"]) == (0, 1)
    assert document["by_values"]["benign"][p2_summary.OURS]["functional"]["cases"] == 1
    assert document["by_values"]["hard"][p2_summary.OURS]["functional"]["cases"] == 1
    assert list(document["by_cell"]) == ["relu float32"]
    assert tuple(document["by_cell"]["relu float32"]) == p2_summary.BY_CELL
    assert document["missed"] == []


def test_a_failed_row_adds_no_runs() -> None:
    rows = {"relu/float32/bell/1": p2.failed_row("it broke")}
    assert rows["relu/float32/bell/1"]["failure"] == "it broke"
    assert p2_summary.read_runs(rows) == []


def test_the_page_has_a_table_per_op_and_dtype() -> None:
    document = {
        **p2_summary.summarise({"relu/float32/bell/1": {"runs": [planted("control", 0.5, 1.0)]}}),
        "device": "cpu", "device_name": "CPU", "seed": 0, "items": 1, "items_planned": 1, "environment": {},
    }  # fmt: skip
    page = p2_page.render_markdown(document, [])
    assert page.startswith("# Study P2: tolerance calibration")
    assert "### relu float32" in page
