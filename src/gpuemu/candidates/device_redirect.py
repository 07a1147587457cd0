"""Lets a host wrapper that was written for a GPU run on the CPU tier, unchanged.

Within `redirect_to_cpu()`, tensors stay on the CPU and say that they are on `cuda:0`: factories, `.to`, `.cuda`
and `empty_like(..., device=...)` drop the device word, `is_cuda` and `device` answer as on a device. What torch
overloads is redirected by a `TorchFunctionMode`, which Python code inside torch does not see, so torch itself
keeps the truth; the plain functions of `torch.cuda` are replaced for the time. A question that cannot be
answered raises `CandidateRefusedError`, one line that names it.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from gpuemu.candidates import device_answers
from gpuemu.candidates.replaced import ReplacedAttributes

_CPU = torch.device("cpu")
_DEVICE = torch.device("cuda", 0)


@dataclass
class Redirection:
    """What was answered in place of a device; one line a kind, in order of appearance."""

    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Add a line unless it is there already."""
        if text not in self.notes:
            self.notes.append(text)


def _to_cpu(device: Any) -> Any:
    """The CPU where `device` names a CUDA device (a string, torch.device or index), else `device` itself."""
    if isinstance(device, torch.device):
        return _CPU if device.type == "cuda" else device
    if isinstance(device, str):
        return _CPU if device.partition(":")[0] == "cuda" else device
    if isinstance(device, int) and not isinstance(device, bool):
        return _CPU
    return device


def _names_cpu(device: Any) -> bool:
    return device == _CPU if isinstance(device, torch.device) else device == "cpu"


def _moved(original: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    # From a device, `.cpu()` copies; here it would alias, and a write to the copy would reach the input.
    return result.clone() if result is original else result


def _to(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    asked = [a for a in (*args[1:2], kwargs.get("device")) if isinstance(a, (str, torch.device))]
    # A bare integer is a device index only as the first argument of `.to`.
    head = tuple(_to_cpu(a) for a in args[1:2])
    kwargs = {k: (_to_cpu(v) if k == "device" else v) for k, v in kwargs.items()}
    result = func(args[0], *head, *args[2:], **kwargs)
    return _moved(args[0], result) if any(_names_cpu(a) for a in asked) else result


def _cpu(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _moved(args[0], func(*args, **kwargs))


def _itself(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ARG001
    return args[0]


def _answer(value: Any) -> Callable[..., Any]:
    return lambda func, args, kwargs: value  # noqa: ARG005


_HANDLERS: dict[Any, Callable[..., Any]] = {
    torch.Tensor.is_cuda.__get__: _answer(True),  # type: ignore[attr-defined]
    torch.Tensor.is_cpu.__get__: _answer(False),  # type: ignore[attr-defined]
    torch.Tensor.device.__get__: _answer(_DEVICE),
    torch.Tensor.get_device: _answer(0),
    torch.Tensor.cuda: _itself,
    torch.Tensor.pin_memory: _itself,
    torch.Tensor.record_stream: _answer(None),
    torch.Tensor.to: _to,
    torch.Tensor.cpu: _cpu,
}


class _CpuTier(TorchFunctionMode):
    """Sees every call of a torch function or tensor attribute that the candidate makes."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        handler = _HANDLERS.get(func)
        if handler is not None:
            return handler(func, args, kwargs or {})
        if kwargs:
            if "device" in kwargs:
                kwargs["device"] = _to_cpu(kwargs["device"])
            if kwargs.get("pin_memory"):
                kwargs["pin_memory"] = False
            return func(*args, **kwargs)
        return func(*args)


def _autocast_arguments(note: device_answers.Note) -> Callable[..., None]:
    """`autocast.__init__` for this tier: `cuda` means the CPU, whose own lists of operators apply."""
    original = torch.amp.autocast_mode.autocast.__init__

    def initialise(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if device_type == "cuda":
            note("torch.autocast('cuda') acted as torch.autocast('cpu') (CPU tier)")
            device_type, dtype = "cpu", dtype or torch.get_autocast_dtype("cuda")
        original(self, device_type, dtype, *args, **kwargs)

    return initialise


def _eager(note: device_answers.Note) -> Callable[..., Any]:
    """`torch.compile` as the identity."""

    def compile_(model: Any = None, **options: Any) -> Any:  # noqa: ARG001
        note("torch.compile was left out: the function runs eagerly (CPU tier)")
        return model if model is not None else (lambda function: function)

    return compile_


def _run_backward(original: Callable[..., Any]) -> Callable[..., Any]:
    """The autograd engine with the mode in force: torch leaves it while it serves `tensor.backward()`."""

    def run(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(mode, _CpuTier) for mode in _get_current_function_mode_stack()):  # type: ignore[no-untyped-call]
            return original(*args, **kwargs)
        with _CpuTier():
            return original(*args, **kwargs)

    return run


class _Generator(torch.Generator):
    """A generator of random numbers for the CPU, whichever device it is asked for."""

    def __new__(cls, device: Any = _CPU) -> _Generator:
        return super().__new__(cls, _to_cpu(device))  # type: ignore[call-arg]


def _refusals() -> dict[str, Any]:
    """Refusals for the public functions of `torch.cuda` that have no answer here."""
    return {
        name: device_answers.refusal(f"torch.cuda.{name}")
        for name, value in vars(torch.cuda).items()
        if isinstance(value, types.FunctionType) and name[0] != "_" and value.__module__.startswith("torch")
    }


_REFUSALS = _refusals()


_current = Redirection()


def _note(text: str) -> None:
    _current.note(text)


@functools.cache
def _changes() -> tuple[tuple[Any, dict[str, Any]], ...]:
    """Objects with the attributes that are replaced in them."""
    note = _note
    changes: list[tuple[Any, dict[str, Any]]] = [
        (torch.cuda, {**_REFUSALS, **device_answers.cuda_answers(note)}),
        (torch.cuda.nvtx, {name: lambda *_: None for name in ("range_push", "range_pop", "mark")}),
        (torch.version, {"cuda": device_answers.CUDA_VERSION}),
        (torch.backends.cuda, {"is_built": lambda: True}),
        (torch.amp.autocast_mode.autocast, {"__init__": _autocast_arguments(note)}),
        (torch.autograd, {"_engine_run_backward": _run_backward(torch.autograd.graph._engine_run_backward)}),
        (torch, {"compile": _eager(note), "Generator": _Generator}),
        (torch, {"set_default_device": lambda device: None}),  # noqa: ARG005
    ]
    if hasattr(torch, "accelerator"):
        known = {k: v for k, v in device_answers.accelerator_answers().items() if hasattr(torch.accelerator, k)}
        changes.append((torch.accelerator, known))
    if importlib.util.find_spec("triton") is not None:
        from triton.runtime.driver import driver

        driver_state = {"_active": device_answers.NullDriver(note), "_default": device_answers.NullDriver(note)}
        changes.append((driver, driver_state))
    return tuple(changes)


class _Replacements(ReplacedAttributes):
    """The attributes of `_changes()`, put in place and taken back; what was there is read anew each time."""

    def apply(self) -> None:
        """Put every replacement in place."""
        for target, values in _changes():
            for name, value in values.items():
                self.replace(target, name, value)


# Modules that look up torch's functions once, for good, when they are imported.
TRUTHFUL_IMPORTS = ("torch._dynamo",)


class _TruthfulFinder(importlib.abc.MetaPathFinder):
    """Lets the modules of TRUTHFUL_IMPORTS be imported without the replacements."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """The ordinary spec, with a loader that takes the replacements back while it runs; None for others."""
        if name not in TRUTHFUL_IMPORTS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_unredirected(module: types.ModuleType) -> None:
                _replacements.restore()
                try:
                    execute(module)
                finally:
                    _replacements.apply()

            spec.loader.exec_module = execute_unredirected  # type: ignore[method-assign]
        return spec


_replacements = _Replacements()
_finder = _TruthfulFinder()
_depth = 0


@contextmanager
def redirect_to_cpu() -> Iterator[Redirection]:
    """Within the block, device words of torch and Triton mean the CPU; everything is restored on leaving it.

    Raises, from inside the block:
        CandidateRefusedError: a question about the device that has no answer here.
    """
    global _depth, _current  # noqa: PLW0603
    outer, _current = _current, Redirection()
    _depth += 1
    try:
        if _depth == 1:
            _replacements.apply()
            sys.meta_path.insert(0, _finder)
        with _CpuTier():
            yield _current
    finally:
        _depth -= 1
        _current = outer
        if _depth == 0:
            sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not _finder]
            _replacements.restore()
