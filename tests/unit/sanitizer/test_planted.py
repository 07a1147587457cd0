"""The planted bugs' PTX is what nvcc makes of their source, and assembles; without a driver it says so."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpuemu.sanitizer import planted

NVCC = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"


def strip(text: str) -> list[str]:
    lines = [line.partition("//")[0].rstrip() for line in text.splitlines()]
    return [re.sub(r"^\.version .*", ".version 6.4", line) for line in lines if line]


@pytest.mark.skipif(not Path(NVCC).exists(), reason="needs CUDA's compiler")
def test_the_ptx_is_made_of_the_source(tmp_path: Path) -> None:
    made, source = tmp_path / "planted.ptx", planted.SOURCE.with_suffix(".cu")
    command = [NVCC, "--ptx", "--gpu-architecture=compute_75", str(source), "-o", str(made)]
    subprocess.run(command, check=True, capture_output=True)
    committed = planted.SOURCE.read_text()
    if "release 13.0" in made.read_text():  # another release may choose other registers
        assert strip(made.read_text()) == strip(committed)
    assemble = [str(Path(NVCC).with_name("ptxas")), "-arch=sm_90", str(planted.SOURCE), "-o", "/dev/null"]
    subprocess.run(assemble, check=True)


def test_without_a_driver_there_is_one_line() -> None:
    command = [sys.executable, "-m", planted.__name__, "memcheck"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        assert re.fullmatch(r"gpuemu: .*libcuda.*|gpuemu: cu\w+ returned \d+", done.stderr.strip())
    else:
        assert planted.DONE in done.stdout
