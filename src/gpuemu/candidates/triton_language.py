"""Makes `triton.language` callable outside the compiler for as long as an interpreted kernel runs.

Triton's interpreter patches the language again for every device function that a program calls (`tl.sum`,
`tl.max`, `tl.cdiv`, ...), a millisecond each time, and does not undo it. Here the replacements are made once,
put in place when a launch begins and taken back when it ends. Builtins that a module imported by name
(`from triton.language.math import rsqrt`) are replaced in that module's globals for the same time.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import triton.language as tl
from triton.language.extra import libdevice as generic_libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.runtime import interpreter
from triton.runtime.jit import JITFunction

from gpuemu.candidates import triton_reduction
from gpuemu.candidates.replaced import ABSENT, ReplacedAttributes
from gpuemu.candidates.triton_builder import SEMANTIC
from gpuemu.candidates.triton_source import loop_range, rewrite

Change = tuple[Any, str, Any]


def _is_builtin(value: Any) -> bool:
    return isinstance(value, types.FunctionType) and getattr(value, "__triton_builtin__", False)


@functools.cache
def _inject(builtin: Any) -> Callable[..., Any]:
    """`builtin` with the interpreter's semantic layer supplied, as the compiler supplies its own."""

    @functools.wraps(builtin)
    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs["_semantic"] = SEMANTIC
        return builtin(*args, **kwargs)

    # The compiler recognises builtins by this mark; what is injected must not look like one.
    call.__dict__.pop("__triton_builtin__", None)
    return call


def call_device(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a `@triton.jit` function, or its plain function, from interpreted code."""
    plain = getattr(function, "fn", function)
    if not isinstance(plain, types.FunctionType):
        return plain(*args, **kwargs)
    _scope.enter_globals(plain.__globals__)
    return rewrite(plain)(*args, **kwargs)


def _reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False, **_: Any) -> Any:  # noqa: A002
    return triton_reduction.reduce(input, axis, combine_fn, keep_dims, call_device)


def _associative_scan(input: Any, axis: Any, combine_fn: Any, reverse: Any = False, **_: Any) -> Any:  # noqa: A002
    return triton_reduction.scan(input, axis, combine_fn, reverse, call_device)


class _Recorder:
    """Stands in for Triton's patch scope and only notes what it would set."""

    def __init__(self) -> None:
        self.changes: list[Change] = []

    def set_attr(self, target: Any, name: str, value: Any) -> None:
        self.changes.append((target, name, value))


def _bind_method(function: Any) -> Callable[..., Any]:
    return lambda self, *args, **kwargs: call_device(function, (self, *args), kwargs)


def _library_changes() -> Iterator[Change]:
    """`triton.language.extra.libdevice` is a stub that the compiler maps to the target's functions."""
    for name, value in vars(cuda_libdevice).items():
        if _is_builtin(value):
            yield cuda_libdevice, name, _inject(value)
            yield generic_libdevice, name, _inject(value)


@functools.cache
def _language_changes() -> tuple[Change, ...]:
    """Every replacement in triton.language, computed from its unpatched state."""
    recorder = _Recorder()
    owners = [tl, tl.core, tl.math, *(c for _, c in inspect.getmembers(tl.core, inspect.isclass))]
    for owner in owners:
        for name, value in inspect.getmembers(owner):
            if _is_builtin(value):
                recorder.set_attr(owner, name, _inject(value))
    for name, value in inspect.getmembers(tl.tensor):
        if isinstance(value, JITFunction):
            recorder.set_attr(tl.tensor, name, _bind_method(value))
    interpreter._patch_lang_tensor(tl.tensor, recorder)
    recorder.set_attr(tl.tensor, "__index__", lambda self: int(self.handle.data.reshape(()).item()))
    for owner in (tl, tl.core):
        interpreter._patch_lang_core(owner, recorder)
    for owner in (tl, tl.core):  # after both: Triton's own patch of one module sets `reduce` in the other
        recorder.set_attr(owner, "range", loop_range)
        recorder.set_attr(owner, "reduce", _reduce)
        recorder.set_attr(owner, "associative_scan", _associative_scan)
    recorder.set_attr(tl.tensor, "reduce", _reduce)
    recorder.set_attr(tl.tensor, "associative_scan", _associative_scan)
    for change in _library_changes():
        recorder.set_attr(*change)
    final = {(id(target), name): (target, name, value) for target, name, value in recorder.changes}
    return tuple(final.values())


@functools.cache
def _replacements() -> dict[int, tuple[Any, Any]]:
    """(original, replacement) by the original's id, for names that a module imported from triton.language.

    Must first be called while the language is unpatched. The originals are kept so that no id is reused.
    """
    modules = (change for change in _language_changes() if isinstance(change[0], types.ModuleType))
    pairs = [(vars(target)[name], value) for target, name, value in modules if name in vars(target)]
    return {id(original): (original, value) for original, value in pairs}


def _replacement(value: Any) -> Any:
    """What a module-level name bound to `value` must stand for while a kernel runs, or `ABSENT`."""
    known = _replacements().get(id(value))
    if known is not None:
        return known[1]
    return _inject(value) if _is_builtin(value) else ABSENT


@functools.cache
def _by_namespace() -> tuple[tuple[tuple[dict[str, Any], dict[str, Any]], ...], tuple[Change, ...]]:
    """The replacements as (module namespace, values by name), and those in classes one by one."""
    modules: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}
    for target, name, value in _language_changes():
        if isinstance(target, types.ModuleType):
            modules.setdefault(id(target), (vars(target), {}))[1][name] = value
    classes = (change for change in _language_changes() if not isinstance(change[0], types.ModuleType))
    return tuple(modules.values()), tuple(classes)


class _LanguageScope:
    """The replacements in force; nested launches and device calls share one."""

    def __init__(self) -> None:
        self._depth = 0
        self._classes = ReplacedAttributes()
        self._namespaces: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}

    @contextmanager
    def active(self) -> Iterator[None]:
        """Put the language's replacements in place, and take them back however the block ends."""
        self._depth += 1
        try:
            if self._depth == 1:
                self._apply()
            # NumPy warns where a device computes silently: overflow, NaN, division by zero.
            with np.errstate(all="ignore"):
                yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._restore()

    def enter_globals(self, namespace: dict[str, Any]) -> None:
        """Replace the builtins that this module imported by name, until the launch ends."""
        if id(namespace) not in self._namespaces:
            found = {name: _replacement(value) for name, value in namespace.items()}
            self._replace(namespace, {name: value for name, value in found.items() if value is not ABSENT})

    def _apply(self) -> None:
        _replacements()
        modules, classes = _by_namespace()
        for namespace, values in modules:
            self._replace(namespace, values)
        for target, name, value in classes:
            self._classes.replace(target, name, value)

    def _replace(self, namespace: dict[str, Any], values: dict[str, Any]) -> None:
        originals = {name: namespace.get(name, ABSENT) for name in values}
        self._namespaces[id(namespace)] = namespace, originals
        namespace.update(values)

    def _restore(self) -> None:
        self._classes.restore()
        for namespace, originals in self._namespaces.values():
            namespace.update(originals)
            for name in [name for name, value in originals.items() if value is ABSENT]:
                del namespace[name]
        self._namespaces.clear()

    @property
    def is_active(self) -> bool:
        """Whether a launch or a device call is running."""
        return self._depth > 0


_scope = _LanguageScope()
active = _scope.active
enter_globals = _scope.enter_globals


def is_active() -> bool:
    """Whether interpreted code is running."""
    return _scope.is_active
