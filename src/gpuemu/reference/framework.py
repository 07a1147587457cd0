"""Which array library a reference is written with, read off the names in its code; nothing is called."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any, Literal

Framework = Literal["torch", "numpy", "jax"]
# Functions of the reference's own module are followed this far, for wrappers around the real one.
_DEPTH = 3


def find_framework(reference: Callable[..., Any]) -> Framework:
    """The library whose modules or functions the reference names: torch if any, else JAX, else NumPy.

    A reference that names none works on whatever it is given, and is given torch tensors.
    """
    found = set()
    for library in _libraries(reference, _DEPTH):
        if library == "torch":
            return "torch"
        found.add(library)
    return "jax" if "jax" in found else "numpy" if "numpy" in found else "torch"


def _libraries(function: Any, depth: int) -> Iterator[str]:
    for value in _named_values(function):
        module = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
        library = str(module or "").partition(".")[0]
        if library in ("torch", "numpy", "jax", "jaxlib"):
            yield "jax" if library == "jaxlib" else library
        elif depth and isinstance(value, types.FunctionType):
            yield from _libraries(value, depth - 1)


def _named_values(function: Any) -> Iterator[Any]:
    """The global and enclosed values that a function's code names, in nested functions too."""
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "__wrapped__", function)
    if not isinstance(function, types.FunctionType):
        yield function
        return
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # a name that is not bound yet
            continue
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        yield from (function.__globals__[name] for name in code.co_names if name in function.__globals__)
