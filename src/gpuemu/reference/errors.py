"""What goes wrong while a reference is followed."""

from __future__ import annotations

from gpuemu.errors import GpuemuError


class UnsupportedReferenceError(GpuemuError):
    """The reference does something whose error cannot be followed soundly; the message says what instead."""


class UnmappedReferenceError(UnsupportedReferenceError):
    """The reference uses something without a counterpart here, such as complex numbers.

    It can still be run as it is, at random points beside the inputs, for a generic bound (rule 9).
    """


class RandomReferenceError(UnsupportedReferenceError):
    """The reference draws random numbers, so that it has no answer to compare with."""
