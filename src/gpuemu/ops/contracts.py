"""Contracts that several third-party families share."""

from __future__ import annotations

from gpuemu.model.op import Contract


def eager_contract(reason: str, mutates: tuple[str, ...] = ()) -> Contract:
    """Profile P2 for 16-bit dtypes, the default for float32: the library documents casts in between.

    reason: which casts, and where the library says so.
    """
    profiles = {"float16": "P2", "bfloat16": "P2"}
    return Contract(profile=profiles, profile_reason=reason, mutates=mutates)
