"""Test configuration: kernels of the CPU tier are interpreted, so the variable must precede their import.

One process has one kind of Triton: `-m gpu` compiles, everything else interprets. Tests call kernels in their
own process unless they are about the worker, which takes seconds to start.
"""

from __future__ import annotations

import os

import pytest

from gpuemu import environment

os.environ.setdefault("GPUEMU_RUNNER", "inline")


def pytest_configure(config: pytest.Config) -> None:
    """Before any test file is imported."""
    environment.set_triton_interpret(config.option.markexpr != "gpu")
