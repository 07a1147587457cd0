"""The repaired interpreter, for every test of this folder that asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def interpreted() -> Iterator[None]:
    """Triton kernels are interpreted by the repaired interpreter within the test."""
    from gpuemu.candidates import triton_interpreter

    with triton_interpreter.installed():
        yield


@pytest.fixture
def bare() -> Iterator[None]:
    """Triton as it is without the repair, whatever ran before in this process."""
    from gpuemu.candidates import triton_interpreter

    before = triton_interpreter.is_installed()
    triton_interpreter.uninstall()
    try:
        yield
    finally:
        if before:
            triton_interpreter.install()
        else:
            triton_interpreter.uninstall()
