"""What goes wrong while a reference is followed."""

from __future__ import annotations

from gpuemu.errors import GpuemuError


class UnsupportedReferenceError(GpuemuError):
    """The reference does something whose error cannot be followed soundly; the message says what instead."""
