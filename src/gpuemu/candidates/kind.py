"""What a candidate is written with, judged from its source and from the code that it calls."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Iterator
from typing import Any

_WORDS = (("triton", b"triton"), ("numpy", b"numpy"), ("torch", b"torch"))
# A package's public function, its launcher and its kernel lie in up to three modules.
_DEPTH = 5
_FRAMEWORKS = ("torch", "numpy", "builtins")


def find_kind(function: Any, source: bytes) -> str:
    """ "triton", "numpy", "torch" or "python": the first word in `source`, or Triton if a kernel is reached.

    A host wrapper in a module of its own names no Triton; the functions that it calls do.
    """
    if b"triton" not in source and reaches_triton(function):
        return "triton"
    return next((kind for kind, word in _WORDS if word in source), "python")


def reaches_triton(function: Any) -> bool:
    """Whether code that `function` names, and code which that names, holds a Triton kernel."""
    seen: set[int] = set()
    level = [function]
    for _ in range(_DEPTH):
        found = [value for each in level for value in _named(each) if id(value) not in seen]
        if any(_module(type(value)) == "triton" for value in found):
            return True
        level = [value for value in found if _module(value) not in _FRAMEWORKS]
        seen.update(id(value) for value in level)
    return False


def _module(value: Any) -> str:
    return str(getattr(value, "__module__", None) or "").partition(".")[0]


def _named(value: Any) -> Iterator[Any]:
    """The module-level objects that a function's code, or that of a class's or partial's functions, names."""
    if isinstance(value, functools.partial):
        value = value.func
    if inspect.isclass(value):
        parts = [part.__func__ if isinstance(part, staticmethod) else part for part in vars(value).values()]
        for part in parts:
            yield from _named(part) if inspect.isfunction(part) else ()
        return
    while hasattr(value, "__wrapped__"):
        value = value.__wrapped__
    value = getattr(value, "__func__", value)
    if isinstance(value, types.FunctionType):
        names = value.__code__.co_names
        yield from (value.__globals__[name] for name in names if name in value.__globals__)
