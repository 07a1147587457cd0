"""What the interpreter computes is what the device computes, bit for bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.gpu
def test_interpreted_kernels_agree_with_compiled_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    # In a process of its own: here kernels are interpreted from the start.
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    script = Path(__file__).with_name("interpreter_agreement.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
