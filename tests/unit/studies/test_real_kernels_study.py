"""The study of real kernels on torch stand-ins, and its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuemu.report.study_real_kernels import study_lines
from gpuemu.studies import real_targets
from gpuemu.studies.real_kernels import attach_causes, run_study
from gpuemu.studies.real_kernels_page import render_markdown, write_page
from gpuemu.studies.real_targets import Cause, RealKernel

KERNELS = """
import torch

def right(x):
    return torch.softmax(x.float(), -1).to(x.dtype)

def wrong_in_half(x):
    y = right(x)
    return y * 2 if x.dtype == torch.float16 else y

def refuses(x):
    assert x.is_contiguous(), "contiguous only"
    return right(x)
"""


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[RealKernel]:
    monkeypatch.setattr(real_targets, "REPOSITORY", tmp_path)
    (tmp_path / "kernels.py").write_text(KERNELS)
    names = ("right", "wrong_in_half", "refuses")
    return [RealKernel("torch", f"kernels.py::{name}", "softmax") for name in names]


def measure(kernels: list[RealKernel]) -> dict[str, Any]:
    return run_study(kernels=kernels, cases=12)


def test_verdicts_counts_and_minimal_cases_are_measured(kernels: list[RealKernel]) -> None:
    told: list[tuple[str, int, int]] = []
    document = run_study(kernels=kernels, cases=12, progress=lambda *step: told.append(step))
    assert told == [("softmax", 0, 3), ("softmax", 1, 3), ("softmax", 2, 3)]
    right, wrong, refuses = document["kernels"]
    assert document["cases"] == 36
    assert (right["status"], right["findings"]) == ("pass", [])
    assert {dtype: row["status"] for dtype, row in wrong["dtypes"].items()} == {
        "float32": "pass", "float16": "fail", "bfloat16": "pass",
    }  # fmt: skip
    (finding,) = wrong["findings"]
    assert (finding["kind"], finding["dtypes"]) == ("value", ["float16"])
    assert finding["cases"] == wrong["dtypes"]["float16"]["statuses"]["fail"]
    assert finding["minimal"]["case"]["dims"] == {"B": 1, "S": 1, "H": 1}
    assert wrong["dtypes"]["float16"]["first_failure"] == finding["first_index"]
    assert [(found["kind"], found["minimal"]) for found in refuses["findings"]] == [("unsupported", None)]


def test_what_is_missing_gets_a_row_that_says_so(kernels: list[RealKernel]) -> None:
    missing = [RealKernel("no-such-package", "a.b:c", "softmax"), RealKernel("torch", "gone.py::f", "softmax")]
    document = measure(missing)
    reasons = [row["unavailable"] for row in document["kernels"]]
    assert reasons == ["not installed", "needs gone.py of a clone of the repository"]
    assert "| not installed |" in render_markdown(document)
    assert any("not installed" in line.plain for line in study_lines(document))


def test_causes_are_attached_without_touching_what_was_measured(kernels: list[RealKernel]) -> None:
    document = measure(kernels[1:2])
    assert document["origins"] == {"unexplained": 1}
    key = (kernels[1].target, "softmax", "value")
    explained = attach_causes(document, {key: Cause("theirs", "It doubles halves.", "an issue")})
    assert explained["origins"] == {"theirs": 1}
    (finding,) = explained["kernels"][0]["findings"]
    assert finding.pop("cause")["text"] == "It doubles halves."
    (before,) = document["kernels"][0]["findings"]
    assert {**finding, "cause": None} == before


def test_page_and_terminal_tell_the_finding_and_its_cause(kernels: list[RealKernel], tmp_path: Path) -> None:
    key = (kernels[1].target, "softmax", "value")
    document = attach_causes(measure(kernels), {key: Cause("theirs", "It doubles halves.")})
    (page,) = write_page(document, tmp_path / "out")
    text = page.read_text()
    assert "### `softmax`: value" in text
    assert "A discrepancy of the kernel. It doubles halves." in text
    assert "No cause is recorded." in text  # the refusal's
    assert "B=1 S=1 H=1, float16" in text
    lines = [line.plain for line in study_lines(document)]
    assert "  a discrepancy of the kernel: It doubles halves." in lines
    assert "  2 of 3 kernels passed" in lines
    assert len(list(study_lines(document, quiet=True))) < len(lines)
