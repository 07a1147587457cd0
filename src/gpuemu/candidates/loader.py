"""From a target, or a Python callable, to a `Candidate` that every stage can call the same way."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

from gpuemu import environment
from gpuemu.candidates.block_sizes import read_block_sizes
from gpuemu.candidates.kind import find_kind
from gpuemu.candidates.source import Target, get_attribute, import_target, parse_target
from gpuemu.errors import TargetError, UsageError
from gpuemu.model.candidate import Candidate
from gpuemu.model.op import Op

OP_MARK = "__gpuemu_op__"
DEVICE_WORDS = (b"cuda", b"device", b"gpu")
COMPILED_MARK = "_torchdynamo_orig_callable"  # what torch.compile made here traces no redirected words


def mark(op: str | Op) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: say which op a kernel's host function implements (`gpuemu.kernel`)."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        setattr(function, OP_MARK, op)
        return function

    return decorate


def prepare_tier(device: str) -> None:
    """Make kernels imported from now on run on this tier: interpreted on the CPU, compiled on a device.

    Must be called before a kernel's module is imported, since Triton decides when `@triton.jit` is applied.
    """
    interpreted = device == "cpu"
    environment.set_triton_interpret(interpreted)
    if importlib.util.find_spec("triton") is None:
        return
    from gpuemu.candidates import triton_interpreter

    if interpreted:
        triton_interpreter.install()
    else:
        triton_interpreter.uninstall()


def tier_scope(device: str, candidate: Candidate | None = None) -> Callable[[], AbstractContextManager[Any]]:
    """Makes the context in which a candidate is imported (`candidate` None) or called on this tier.

    Redirecting device words costs a tiny case as much as the case itself, so a candidate that reaches no Triton
    kernel and whose file speaks of no device is called without it.
    """
    if device != "cpu" or (candidate is not None and not candidate.speaks_of_devices):
        return nullcontext
    from gpuemu.candidates import device_redirect

    return device_redirect.redirect_to_cpu


def tier_watch(device: str, candidate: Candidate) -> Callable[[Any], AbstractContextManager[Any]]:
    """Makes the context that watches a candidate's kernels run, of a `gpuemu.run.calling.Manner`."""
    if candidate.kind != "triton":
        return lambda _: nullcontext()
    if device != "cpu":
        from gpuemu.candidates import triton_launches

        return lambda manner: triton_launches.watch_compiled(manner.launching)
    from gpuemu.candidates import triton_watch

    return lambda manner: triton_watch.watch(manner.pattern, manner.launching)


def read_blocks(text: str) -> tuple[int, ...]:
    """Tile sizes in the file of a `file.py::function` target, read without importing it; () for others."""
    target = parse_target(text)
    return read_block_sizes(target.path.read_text(encoding="utf-8", errors="replace")) if target.path else ()


def load(text: str, device: str) -> Candidate:
    """Import a target and wrap it.

    Raises:
        TargetError: it cannot be found or imported, or is not callable.
    """
    target = parse_target(text)
    prepare_tier(device)
    with tier_scope(device)():
        module = import_target(target)
    if not target.attribute:
        return from_callable(_only_kernel(module, target), name=text, target=text)
    return from_callable(get_attribute(module, target), name=target.attribute, target=text)


def load_op(text: str) -> Op:
    """The `Op` that a target such as `file.py::op` names.

    Raises:
        TargetError: it cannot be imported or is no Op.
    """
    target = parse_target(text)
    found = get_attribute(import_target(target), target)
    if not isinstance(found, Op):
        raise TargetError(f"{text} is a {type(found).__name__}, not a gpuemu.Op")
    return found


def _only_kernel(module: ModuleType, target: Target) -> Any:
    """The one function of a file that carries the `gpuemu.kernel` mark."""
    marked = [value for value in vars(module).values() if callable(value) and hasattr(value, OP_MARK)]
    if len(marked) != 1:
        names = ", ".join(getattr(value, "__name__", "?") for value in marked) or "none"
        raise TargetError(
            f"{target.text}: name the function as file.py::function "
            f"(functions marked with @gpuemu.kernel in this file: {names})"
        )
    return marked[0]


def from_callable(function: Any, name: str | None = None, target: str | None = None) -> Candidate:
    """Wrap a function, a torch.autograd.Function class or an nn.Module instance.

    Raises:
        TargetError: the object cannot be called.
    """
    name = name or str(getattr(function, "__name__", type(function).__name__))
    call = _as_call(function)
    if call is None:
        raise TargetError(f"{target or name} is a {type(function).__name__}, which cannot be called")
    path = _source_path(function)
    text = path.read_bytes() if path else b""
    kind = find_kind(function, text)
    speaks = kind == "triton" or any(word in text for word in DEVICE_WORDS)
    return Candidate(
        name=name,
        target=target or f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', name)}",
        kind=kind,
        speaks_of_devices=speaks and not hasattr(function, COMPILED_MARK),
        call=call,
        op=getattr(function, OP_MARK, None),
        source_path=str(path) if path else None,
        source_digest=hashlib.sha256(text).hexdigest() if path else None,
        block_sizes=read_block_sizes(text.decode(errors="replace")),
    )


def _as_call(function: Any) -> Callable[..., Any] | None:
    import torch

    if isinstance(function, type) and issubclass(function, torch.autograd.Function):
        apply: Callable[..., Any] = function.apply  # positional arguments only, in the order of forward's

        def call_apply(*inputs: Any, **params: Any) -> Any:
            return apply(*inputs, *params.values())

        return call_apply
    if isinstance(function, type) or not callable(function):
        return None
    return function  # type: ignore[no-any-return]


def _source_path(function: Any) -> Path | None:
    owner = function if inspect.isclass(function) or inspect.isroutine(function) else type(function)
    try:
        path = Path(inspect.getsourcefile(inspect.unwrap(owner)) or "")
    except TypeError:
        return None
    return path.resolve() if path.is_file() else None


def check_call(candidate: Candidate, op: Op) -> None:
    """Compare a candidate's signature with an op before anything runs.

    Raises:
        UsageError: the function cannot take the op's inputs positionally and its parameters by name.
    """
    check_arguments(candidate, op.name, op.inputs, op.params)


def check_arguments(candidate: Candidate, op: str, inputs: Collection[str], params: Collection[str]) -> None:
    """As `check_call`, of an op's name and the names of its inputs and parameters.

    Raises:
        UsageError: as `check_call`.
    """
    try:
        signature = inspect.signature(candidate.call)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*inputs, **dict.fromkeys(params))
    except TypeError as error:
        shown = ", ".join(inputs) + "".join(f", {name}=…" for name in params)
        raise UsageError(
            f"{candidate.name}{signature} cannot be called as op {op!r} calls it, "
            f"{candidate.name}({shown}): {error}"
        ) from None


def propose_ops(candidate: Candidate, ops: Iterable[Op]) -> list[str]:
    """Names of ops whose call fits the candidate's signature, most similar name first."""
    import difflib

    fitting = []
    for op in ops:
        try:
            check_call(candidate, op)
        except UsageError:
            continue
        ratio = difflib.SequenceMatcher(None, candidate.name.lower(), op.name.lower()).ratio()
        fitting.append((-ratio, op.name))
    return [name for _, name in sorted(fitting)]
