"""The README shows what the command really prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def mask(text: str) -> list[str]:
    """The lines without what differs from run to run: the time taken and the run's id."""
    text = re.sub(r"in \d+\.\d s", "in T s", text)
    return re.sub(r"replay \d{8}-\d{6}-\w+", "replay RUN", text).strip().splitlines()


def test_the_readmes_failing_kernel_is_real_output(tmp_path: Path) -> None:
    shown = r"```console\n\$ gpuemu (check softmax_triton_buggy --seed 0)\n(.*?)```"
    block = re.search(shown, README.read_text(), re.S)
    assert block is not None
    command = [sys.executable, "-m", "gpuemu", *block[1].split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert mask(done.stdout) == mask(block[2])
