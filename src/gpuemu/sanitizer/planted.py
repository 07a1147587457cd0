"""Kernels with one bug each, run through the driver: `python -m gpuemu.sanitizer.planted TOOL`.

A tool that does not find its bug here, or finds one in the same kernel without it, is not believed. Nothing but
the driver is needed: it compiles the PTX beside this file (`planted.cu` says how that was made).
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

DONE = "gpuemu: launched"
THREADS = 64
SOURCE = Path(__file__).with_name("planted.ptx")


class DriverError(RuntimeError):
    """A call of the CUDA driver failed."""


def main(tool: str) -> None:
    """Launch the right kernel, then the one with the bug that `tool` is to find.

    Raises:
        DriverError: the driver is missing or refuses.
    """
    driver = _Driver()
    x, unwritten, y = (driver.allocate(4 * THREADS) for _ in range(3))
    driver.call("cuMemsetD32_v2", x, ctypes.c_uint(0), ctypes.c_size_t(THREADS))
    for name in (f"right_{tool}", f"planted_{tool}"):
        driver.launch(name, x, unwritten, y, ctypes.c_int(THREADS))
    sys.stdout.write(f"{DONE}\n")
    sys.stdout.flush()


class _Driver:
    """The few calls of the CUDA driver API that a launch takes (CUDA Driver API reference manual)."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise DriverError(str(error)) from error
        self.call("cuInit", ctypes.c_uint(0))
        device, context, self._module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.call("cuModuleLoadData", ctypes.byref(self._module), SOURCE.read_bytes() + b"\0")

    def call(self, name: str, *arguments: Any) -> None:
        result = getattr(self._library, name)(*arguments)
        if result != 0:
            raise DriverError(f"{name} returned {result}")

    def allocate(self, size_bytes: int) -> ctypes.c_uint64:
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size_bytes))
        return address

    def launch(self, name: str, *arguments: Any) -> None:
        """One block; a fault that the kernel causes is the sanitizer's to tell."""
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), self._module, name.encode())
        pointers = [ctypes.cast(ctypes.byref(argument), ctypes.c_void_p) for argument in arguments]
        parameters = (ctypes.c_void_p * len(pointers))(*pointers)
        sizes = [ctypes.c_uint(number) for number in (1, 1, 1, THREADS, 1, 1, 0)]
        self.call("cuLaunchKernel", function, *sizes, None, parameters, None)
        self._library.cuCtxSynchronize()


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except DriverError as error:
        sys.exit(f"gpuemu: {error}")
