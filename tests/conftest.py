"""Test configuration: kernels of the CPU tier are interpreted, so the variable must precede their import.

Tests call kernels in their own process unless they are about the worker, which takes seconds to start.
"""

from __future__ import annotations

import os

from gpuemu import environment

environment.set_triton_interpret(True)
os.environ.setdefault("GPUEMU_RUNNER", "inline")
