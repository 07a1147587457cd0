"""compute-sanitizer itself, where the machine lets it: its planted bugs, a kernel with one, a right one.

Where a host refuses the tools, they must say so; that much is asserted everywhere.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import gpuemu
from gpuemu.sanitizer import tools
from gpuemu.sanitizing import sanitize

pytestmark = pytest.mark.gpu

KERNELS = """
import torch, triton, triton.language as tl

@triton.jit
def relu_kernel(x, y, n, excess, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.maximum(tl.load(x + at, mask=at < n, other=0.0), 0.0), mask=at < n + excess)

def launch(x, excess):
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel():
        relu_kernel[(triton.cdiv(x.numel() + excess, 64),)](x, y, x.numel(), excess, BLOCK=64)
    return y

def right(x):
    return launch(x, 0)

def past_the_end(x):
    return launch(x, 1)

def unwritten(x):
    return torch.relu(torch.empty_like(x))
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "relu_kernels.py"
    path.write_text(KERNELS)
    return path


def record(target: str, store: Path) -> None:
    gpuemu.check(target, "relu", budget=4, seed=3, device="cuda", store=store, dtypes=["float32"])


@pytest.mark.parametrize("tool", tools.TOOLS)
def test_the_tool_finds_its_planted_bug_or_says_why_not(tool: str) -> None:
    program = tools.find_program()
    if program is None:
        (result,) = tools.sanitize([], "", [tool])
        assert result.reason.endswith("was not found")
        return
    assert tools.try_tool(program, tool) in ("", "Error: Failed to initialize"), tool


@pytest.mark.parametrize(
    ("name", "tool", "found"),
    [
        ("right", "memcheck", ""),
        ("past_the_end", "memcheck", "relu_kernel"),
        ("unwritten", "initcheck", "at::"),
    ],
)
def test_a_recorded_case(file: Path, tmp_path: Path, name: str, tool: str, found: str) -> None:
    record(f"{file}::{name}", tmp_path / "store")
    (result,) = sanitize("latest", store=tmp_path / "store", names=[tool]).results
    if result.state == "unavailable":
        assert result.reason
        return
    assert result.state == ("findings" if found else "clean"), result
    assert any(found in finding.place for finding in result.findings) or not found, result
