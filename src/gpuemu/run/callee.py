"""The candidate's side of a call, in whichever process it lives: call it, and say what came back."""

from __future__ import annotations

import dis
import os
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import torch

from gpuemu.errors import CandidateRefusedError
from gpuemu.model.candidate import Candidate
from gpuemu.model.observation import CandidateException, GuardFinding
from gpuemu.run.calling import PATTERNS, Manner, Returned, Scope, WatchScope
from gpuemu.run.guards import alias, late_work, poison, state

MESSAGE_LENGTH = 300
_RAISE = dis.opmap["RAISE_VARARGS"]
_TOOLS = ("/triton/", "/gpuemu/candidates/")  # folders whose frames are not the kernel's


def unwatched(manner: Manner) -> nullcontext[None]:
    """The scope of a candidate whose kernels nothing watches."""
    del manner
    return nullcontext()


class Callee:
    """A loaded candidate with the contexts in which it is called.

    scope: the tier's (the CPU tier's device redirection). watch: sees its kernels run.
    """

    def __init__(self, candidate: Candidate, scope: Scope = nullcontext, watch: WatchScope = unwatched) -> None:
        self.candidate, self._scope, self._watch = candidate, scope, watch

    def call(self, inputs: Mapping[str, torch.Tensor], params: Mapping[str, Any], manner: Manner) -> Returned:
        """Call the candidate once on these tensors; never raises for what it does, but KeyboardInterrupt."""
        guards = manner.guards
        before = state.take(not manner.may_draw) if state.NAME in guards else None
        started = time.perf_counter()
        poisoned = poison.Poison(manner.pattern) if poison.NAME in guards else None
        busy = _count_threads()
        first: tuple[torch.Tensor, ...] = ()
        try:
            with ExitStack() as around, ExitStack() as stack:
                if late_work.NAME in guards and manner.pattern != PATTERNS[0]:
                    around.enter_context(late_work.on_another_stream(inputs))
                stack.enter_context(torch.no_grad())
                stack.enter_context(self._scope())
                watch = stack.enter_context(self._watch(manner))
                if poisoned is not None:
                    stack.enter_context(poisoned)
                returned = self.candidate.call(*inputs.values(), **params)
                duration_s = time.perf_counter() - started
                stack.close()  # the tier may answer for a tensor where it lies
                outputs, malformed = as_tensors(returned)
                is_busy = _count_threads() > busy
                if late_work.NAME in guards and (is_busy or any(output.is_cuda for output in outputs)):
                    first = late_work.read_first(outputs)
        except (Exception, SystemExit) as error:
            duration_s = time.perf_counter() - started
            if before is not None:
                state.restore(before)
            return Returned(exception=describe(error, self.candidate), duration_s=duration_s)
        findings: list[GuardFinding | None] = []
        if first:
            findings.append(late_work.compare(outputs, first, is_busy))
        if before is not None:
            findings.append(state.compare(before, state.take(not manner.may_draw)))
            if findings[-1] is not None:
                state.restore(before)
        if poisoned is not None:
            findings += poisoned.findings()
        if watch is not None:
            findings += [finding for finding in watch.findings if finding.guard in guards]
        return Returned(
            outputs=first or outputs,
            malformed=malformed,
            aliases=alias.find(inputs, outputs) if malformed is None else (),
            findings=tuple(finding for finding in findings if finding is not None),
            unfilled_loads=() if watch is None else tuple(watch.unfilled_loads),
            launches=None if watch is None else watch.launches,
            duration_s=duration_s,
            notes=tuple(getattr(self.candidate.call, "notes", ())),
        )

    def describe(self, error: BaseException) -> CandidateException:
        """An error that shows after the call, as the candidate's own."""
        return describe(error, self.candidate)


def _count_threads() -> int:
    """Threads of this process that the system knows, Python's or not."""
    try:
        return len(os.listdir("/proc/self/task"))  # noqa: PTH208 - a path object costs more than the list
    except OSError:
        return threading.active_count()


def as_tensors(returned: object) -> tuple[tuple[torch.Tensor, ...], str | None]:
    """The returned tensors, or what is wrong with the return value."""
    parts = tuple(returned) if isinstance(returned, tuple | list) else (returned,)
    for position, part in enumerate(parts):
        # A subclass could compute its values only when they are compared (HACKS.md 29).
        where = f"output {position}" if len(parts) > 1 else "the result"
        if type(part) not in (torch.Tensor, torch.nn.Parameter):
            return (), f"{where} is a {type(part).__name__}, not a torch.Tensor"
        problem = _unreadable(part)
        if problem:
            return (), f"{where} is {problem}, not a plain tensor"
    # By the class's own methods, whatever else the tensors carry.
    plain = (torch.Tensor.detach(part) for part in parts)
    return tuple(part.resolve_conj().resolve_neg() for part in plain), None


def _unreadable(tensor: torch.Tensor) -> str | None:
    """What keeps a tensor's elements from being read as they lie in memory, if anything does."""
    own = [name for name in vars(tensor) if hasattr(torch.Tensor, name)]
    if own:  # methods that compute when they are asked (HACKS.md 29)
        return f"a tensor with a {own[0]!r} of its own"
    if tensor.layout is not torch.strided:
        return f"a tensor of layout {tensor.layout}"
    if tensor.device.type == "meta":
        return "a meta tensor without data"
    if tensor.is_quantized:
        return "a quantised tensor"
    reach = tensor.storage_offset() + sum(
        (n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)
    )
    if tensor.numel() and (reach + 1) * tensor.element_size() > tensor.untyped_storage().nbytes():
        return "a tensor whose storage is smaller than its elements"
    return None


def describe(error: BaseException, candidate: Candidate) -> CandidateException:
    """What a candidate raised, where, and whether it may be a refusal."""
    # What Triton raises about a kernel that does not compile or run has the kernel's own error as its cause.
    from_kernel = type(error).__module__.partition(".")[0] == "triton"
    raised = error.__cause__ if from_kernel and error.__cause__ is not None else error
    frames = traceback.extract_tb(raised.__traceback__)
    line = (frames[-1].line or "").lstrip() if frames else ""
    exit_status = f"exit status {error.code}" if isinstance(error, SystemExit) else ""
    text = _text_of(raised).strip() or exit_status or line  # a bare assert says nothing but its own line
    # An explicit `raise` or `assert` may be a wrapper that refuses; whether it is, the campaign finds out.
    refused = isinstance(error, CandidateRefusedError | NotImplementedError) or (
        _raised_on_purpose(raised) and not from_kernel
    )
    first_line = _first_line(text)
    return CandidateException(type(raised).__name__, first_line, _locate(error, raised, candidate), refused)


def _first_line(text: str) -> str:
    return next(iter(text.splitlines()), "")[:MESSAGE_LENGTH]


def _text_of(error: BaseException) -> str:
    """The message; an exception of the candidate's own making may fail to give one."""
    try:
        return str(error)
    except Exception as failure:
        return f"(its message cannot be read: {type(failure).__name__})"


def _raised_on_purpose(error: BaseException) -> bool:
    """Whether a `raise` or `assert` of Python code made the exception, wherever it stands on its line."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_code[trace.tb_lasti] == _RAISE


def _locate(error: BaseException, raised: BaseException, candidate: Candidate) -> str:
    """Where it happened, as file:line: in the kernel if it can be told, else in the candidate's file."""
    inner = traceback.extract_tb(raised.__traceback__) if raised is not error else ()
    kernel = [f for f in inner if not any(folder in f.filename for folder in _TOOLS)]
    whole = traceback.extract_tb(error.__traceback__)
    found = kernel or [f for f in whole if f.filename == candidate.source_path] or whole
    return f"{Path(found[-1].filename).name}:{found[-1].lineno}" if found else ""
