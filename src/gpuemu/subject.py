"""What is checked: an op and a kernel of it, found from what the user wrote, and where the kernel is called."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuemu.candidates import backward as backward_candidate
from gpuemu.candidates import loader
from gpuemu.candidates.source import make_portable, parse_target
from gpuemu.corpus import catalogue
from gpuemu.errors import UsageError
from gpuemu.model.candidate import Candidate
from gpuemu.model.op import Op
from gpuemu.model.record import BACKWARD_OF
from gpuemu.ops.backward import SUFFIX, backward_of, differentiable_inputs
from gpuemu.ops.registry import get_op, load_ops
from gpuemu.run.calling import Caller
from gpuemu.run.inline import InlineCaller
from gpuemu.run.worker import OP_OBJECT, Job, Loaded, WorkerCaller


@dataclass(frozen=True)
class Subject:
    """What is checked: the op, how to find it again, and the kernel, a callable or a target.

    forward: the kernel's op, where `op` is the backward of it and the kernel's own backward pass is checked.
    """

    op: Op
    op_target: str
    kernel: Any
    target: str
    forward: Op | None = None

    @property
    def gradients(self) -> tuple[str, ...]:
        """Names of the inputs whose gradients the kernel's own backward pass is to give."""
        return () if self.forward is None else tuple(differentiable_inputs(self.forward))

    def read_blocks(self) -> tuple[int, ...]:
        """Tile sizes, from the source text of a target or of a callable's file."""
        if isinstance(self.kernel, str):
            return loader.read_blocks(self.kernel)
        return loader.from_callable(self.kernel).block_sizes

    def load(self, device: str, worker: WorkerCaller | None = None) -> tuple[Candidate | Loaded, Caller]:
        """Import the kernel, into a worker or else into this process, and say how it is called.

        Raises:
            UsageError: it cannot be imported, or its signature does not suit the op.
        """
        if worker is None:
            candidate = self._load(device)
            return candidate, inline_caller(candidate, device)
        op = self.forward or self.op
        job = Job(self.kernel, device, op.name, tuple(op.inputs), tuple(op.params), self.gradients)
        return worker.load(job), worker

    def _load(self, device: str) -> Candidate:
        if isinstance(self.kernel, str):
            candidate = loader.load(self.kernel, device)
        else:
            loader.prepare_tier(device)
            candidate = loader.from_callable(self.kernel)
        loader.check_call(candidate, self.forward or self.op)
        if self.forward is None:
            return candidate
        return backward_candidate.adapt(candidate, tuple(self.forward.inputs), self.gradients)

    def digest_source(self, loaded: Candidate | Loaded) -> str | None:
        """SHA-256 of the kernel's file; read here where its path is known, whatever a worker says."""
        path = parse_target(self.kernel).path if isinstance(self.kernel, str) else None
        return loaded.source_digest if path is None else hashlib.sha256(path.read_bytes()).hexdigest()


def inline_caller(candidate: Candidate, device: str) -> InlineCaller:
    """Calls a candidate in this process with what its tier needs."""
    return InlineCaller(candidate, loader.tier_scope(device, candidate), loader.tier_watch(device, candidate))


def hide(store: Path | None, target: str) -> tuple[Path, ...]:
    """What a worker must not see: the store's folder, unless the kernel's own file lies in it."""
    if store is None or _is_corpus_name(target):
        return () if store is None else (store,)
    path = parse_target(target).path
    return () if path is not None and path.is_relative_to(store.resolve()) else (store,)


def resolve(
    kernel: Any,
    op: str | Op | None,
    device: str,
    backward: bool = False,
    worker: WorkerCaller | None = None,
) -> Subject:
    """Find op and kernel. The kernel's module is imported only if its op must be read from its decorator.

    Args:
        worker: where it is then imported; without, in this process. An `Op` in the decorator is the user's own
            word for what is right, so its file is imported in this process too.
        backward: the subject is the kernel's own backward pass, and the op is derived.

    Raises:
        UsageError: nothing of that name, or the op cannot be told.
    """
    if not isinstance(kernel, str):
        target = loader.from_callable(kernel).target
    elif _is_corpus_name(kernel):
        entry = catalogue.find_kernel(kernel)
        target, kernel, op = kernel, f"{entry.path}::{entry.function}", op or entry.op
    else:
        target = make_portable(kernel)
    if op is None:
        op = _find_marked_op(kernel, device, worker)
    found, op_target = (op, f"object {op.name}") if isinstance(op, Op) else find_op(op)
    if not backward:
        return Subject(found, op_target, kernel, target)
    return Subject(backward_of(found), BACKWARD_OF + op_target, kernel, target, forward=found)


def find_op(text: str) -> tuple[Op, str]:
    """The op that a built-in name or a target says, and how to find it again from another folder.

    `file.py::op.backward` derives the backward of the op, as "softmax.backward" does.

    Raises:
        UsageError: there is none. OpDefinitionError: its backward cannot be derived.
    """
    if ":" not in text:
        return get_op(text), text
    if text.endswith(SUFFIX):
        return backward_of(loader.load_op(text.removesuffix(SUFFIX))), make_portable(text)
    return loader.load_op(text), make_portable(text)


def _is_corpus_name(text: str) -> bool:
    return not (":" in text or "/" in text or text.endswith(".py"))


def _find_marked_op(kernel: Any, device: str, worker: WorkerCaller | None) -> str | Op:
    if worker is not None and isinstance(kernel, str):
        loaded = worker.load(Job(kernel, device))
        if loaded.op is None:
            raise _unknown_op(loaded.name, loaded.proposals)
        if loaded.op != OP_OBJECT:
            return loaded.op
    candidate = loader.load(kernel, device) if isinstance(kernel, str) else loader.from_callable(kernel)
    if candidate.op is None:
        raise _unknown_op(candidate.name, loader.propose_ops(candidate, load_ops().values()))
    return candidate.op


def _unknown_op(name: str, fitting: Sequence[str]) -> UsageError:
    shown = ", ".join(fitting[:5])
    hint = f"its signature fits {shown}" if shown else "no built-in op fits its signature"
    return UsageError(f"{name}: which op is it? Give --op NAME or mark it with @gpuemu.kernel(op=NAME); {hint}")
