"""The shape of the code base: file sizes, names, layering, the public interface."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gpuemu

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
LINE_CAP = 400
FORBIDDEN_NAMES = {"utils.py", "helpers.py", "common.py", "misc.py"}


@pytest.mark.parametrize("path", SOURCES + TESTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_is_longer_than_the_cap(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LINE_CAP
    assert path.name not in FORBIDDEN_NAMES


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_environment_reads_environment_variables(path: Path) -> None:
    if path.name != "environment.py":
        assert not re.search(r"os\.(environ|getenv|putenv)", path.read_text())


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_unpickled_or_evaluated(path: Path) -> None:
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
            assert not names & {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"eval", "exec"}


def test_no_two_test_files_share_a_name() -> None:
    names = [path.name for path in TESTS if path.name.startswith("test_")]
    assert sorted(names) == sorted(set(names))  # pytest imports them by their base name


def test_layering_holds() -> None:
    result = subprocess.run(
        [Path(sys.executable).parent / "lint-imports"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_public_names_are_pinned() -> None:
    assert gpuemu.__all__ == [
        "Case",
        "Contract",
        "Dim",
        "Op",
        "Report",
        "Status",
        "Tensor",
        "Verdict",
        "check",
        "get_op",
        "kernel",
    ]
    for name in gpuemu.__all__:
        assert getattr(gpuemu, name) is not None
    assert callable(gpuemu.check)


def test_importing_the_package_loads_nothing_heavy() -> None:
    program = (
        "import sys, gpuemu, gpuemu.cli.app, gpuemu.model.op, gpuemu.dtypes;"
        "print([name for name in ('torch', 'triton', 'numpy', 'matplotlib') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
