"""Canonical JSON: one byte sequence per value, so that a digest names it on every machine."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

ID_LENGTH = 16  # hexadecimal digits of a SHA-256: 64 bits, enough to name the cases of any one store


def encode_float(value: float) -> float | str:
    """A float as JSON can hold it: NaN and infinities as the strings "nan", "inf", "-inf"."""
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")


def decode_float(value: float | str) -> float:
    """Inverse of `encode_float`."""
    return float(value)


def canonical_json(value: Any) -> str:
    """Sorted keys, no spaces, shortest round-trip floats; NaN and infinities must already be encoded."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def short_id(value: Any) -> str:
    """The first 16 hexadecimal digits of `digest`."""
    return digest(value)[:ID_LENGTH]
