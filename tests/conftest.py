"""Test configuration: kernels of the CPU tier are interpreted, so the variable must precede their import."""

from __future__ import annotations

from gpuemu import environment

environment.set_triton_interpret(True)
