"""A JSON document as text that every JSON parser can read: NaN and infinities become strings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from gpuemu.model.canonical import encode_float


def dump(document: Mapping[str, Any]) -> str:
    """Indented JSON, keys in their given order, ending without a newline.

    NaN, inf and -inf become the strings "nan", "inf" and "-inf" (RFC 8259 section 6 has no such numbers);
    tuples become arrays; keys must be strings. DEL and the C1 controls, which a terminal may obey and which
    `json` writes as they are, are escaped like the C0 controls.

    Raises:
        TypeError: the document holds a value or a key that JSON has no form for.
    """
    text = json.dumps(_encode(document), indent=2, ensure_ascii=False, allow_nan=False)
    return re.sub("[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", text)


def _encode(value: Any) -> Any:
    if isinstance(value, float):
        return encode_float(value)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"JSON keys are strings, not {type(key).__name__}: {key!r}")
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encode(item) for item in value]
    return value
