"""What compute-sanitizer 2025.3 printed on an H200 for programs with one bug, and what it may print."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu.sanitizer import output

PRINTED = Path(__file__).parent / "printed"


@pytest.mark.parametrize(
    ("tool", "kernel", "kind", "count"),
    [
        ("memcheck", "oob", "Invalid __global__ write of size 4 bytes", 1),
        ("racecheck", "race", "Error: Race reported between Write access", 1),
        ("initcheck", "uninit", "Uninitialized __global__ memory read of size 4 bytes", 64),
        ("synccheck", "bar", "Barrier error detected. Divergent thread(s) in warp.", 8),
    ],
)
def test_the_fault_its_kernel_and_how_often(tool: str, kernel: str, kind: str, count: int) -> None:
    text = (PRINTED / f"{tool}.txt").read_text()
    first = output.parse(text)[0]
    assert (first.kernel, first.kind, first.count) == (kernel, kind, count)
    assert first.place.endswith(f"in p.cu:{['oob', 'race', 'uninit', 'bar'].index(kernel) + 2}")
    assert output.has_finished(text)


def test_an_example_says_thread_and_address() -> None:
    (first, _) = output.parse((PRINTED / "memcheck.txt").read_text())
    assert first.example.startswith("by thread (63,0,0) in block (0,0,0); Access to 0x")
    assert "1 bytes after the nearest allocation" in first.example


def test_a_clean_run_has_no_finding() -> None:
    text = "========= COMPUTE-SANITIZER\n100.0\n========= ERROR SUMMARY: 0 errors\n"
    assert output.parse(text) == ()
    assert output.has_finished(text)


@pytest.mark.parametrize(
    "text",
    [
        "========= COMPUTE-SANITIZER\n========= Error: Target application ended\n========= ERROR SUMMARY: 0",
        "========= COMPUTE-SANITIZER\n========= Internal Sanitizer Error: Device not supported\n",
    ],
)
def test_a_tool_that_complains_about_itself_found_nothing(text: str) -> None:
    assert output.parse(text) == ()
    assert output.complaint(text).startswith(("Error: Target", "Internal Sanitizer Error"))


def test_what_a_program_prints_is_no_finding() -> None:
    text = "Invalid __global__ write\n    at forged+0x10\n== Invalid\n========= ERROR SUMMARY: 0 errors\n"
    assert output.parse(text) == ()


def test_a_run_that_was_cut_off_has_not_finished() -> None:
    assert not output.has_finished("========= COMPUTE-SANITIZER\n========= Invalid __global__ read of size 4\n")
    assert output.complaint("") == "it printed nothing"
    assert output.complaint("Traceback\nImportError: no torch\n\n") == "ImportError: no torch"
