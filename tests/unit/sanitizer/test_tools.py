"""A tool is believed only after its planted bug; a stand-in for compute-sanitizer plays the ways to fail."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpuemu.model.sanitizer import SanitizerResult
from gpuemu.sanitizer import planted, tools

# Runs nothing: prints what the real one would for the program that it is given.
STAND_IN = """#!{python}
import sys
tool = sys.argv[sys.argv.index("--tool") + 1]
control = "gpuemu.sanitizer.planted" in sys.argv
def finding(kernel):
    print(f"========= Invalid __global__ write of size 4 bytes\\n=========     at {{kernel}}+0x80\\n========= ")
print("========= COMPUTE-SANITIZER")
{body}
print("========= ERROR SUMMARY: 0 errors")
"""
FINDS = 'finding(f"planted_{tool}") if control else None\nprint("gpuemu: launched" if control else "done")'


def look(folder: Path, body: str, timeout_s: float = 60.0) -> SanitizerResult:
    program = folder / "compute-sanitizer"
    program.write_text(STAND_IN.format(python=sys.executable, body=body))
    program.chmod(0o755)
    (result,) = tools.sanitize(["program"], "done", ["memcheck"], str(program), timeout_s)
    return result


def test_clean_after_the_planted_bug_was_found(tmp_path: Path) -> None:
    assert look(tmp_path, FINDS).state == "clean"


def test_a_finding_in_the_program(tmp_path: Path) -> None:
    result = look(tmp_path, FINDS + '\nfinding("mine") if not control else None')
    assert result.state == "findings"
    assert [finding.kernel for finding in result.findings] == ["mine"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('print("gpuemu: launched"); print("done")', "did not find the bug that was planted"),
        (FINDS + '\nfinding(f"right_{tool}")', "found a bug where there is none"),
        ('print("========= Error: Failed to attach"); sys.exit(1)', "Failed to attach"),
        (
            'if control:\n    finding(f"planted_{tool}"); print("gpuemu: launched")\nelse:\n    print("boom")',
            "boom",
        ),
        ("sys.exit(3)", "COMPUTE-SANITIZER"),
    ],
)
def test_a_tool_that_is_not_believed_is_unavailable(tmp_path: Path, body: str, reason: str) -> None:
    result = look(tmp_path, body)
    assert result.state == "unavailable"
    assert reason in result.reason


def test_a_tool_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    body = 'import subprocess; subprocess.Popen(["sleep", "1000"]); import time; time.sleep(1000)'
    result = look(tmp_path, body, timeout_s=1.0)
    assert result.reason == "it took longer than 1 s"


def test_without_the_program_each_tool_is_unavailable(tmp_path: Path) -> None:
    results = tools.sanitize(["program"], "done", program=str(tmp_path / "none"))
    assert [(result.tool, result.state) for result in results] == [(t, "unavailable") for t in tools.TOOLS]
    assert results[0].reason == "compute-sanitizer was not found"


def test_every_tool_has_a_planted_bug_and_the_same_without_it() -> None:
    text = planted.SOURCE.read_text()
    for tool in tools.TOOLS:
        assert f".entry planted_{tool}(" in text
        assert f".entry right_{tool}(" in text
