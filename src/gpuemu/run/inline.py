"""Calling a candidate in this process: for trusted kernels; the record says so."""

from __future__ import annotations

import dis
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch

from gpuemu.errors import CandidateRefusedError
from gpuemu.model.candidate import Candidate
from gpuemu.model.observation import CandidateException, GuardFinding, Observation
from gpuemu.model.op import Contract
from gpuemu.run.guards import alias, mutation, repeat

MESSAGE_LENGTH = 300
_RAISE = dis.opmap["RAISE_VARARGS"]
_TOOLS = ("/triton/", "/gpuemu/candidates/")  # folders whose frames are not the kernel's


def observe(
    candidate: Candidate,
    inputs: Mapping[str, torch.Tensor],
    params: Mapping[str, Any],
    contract: Contract,
    guards: Sequence[str] = (),
    scope: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Observation:
    """Call the candidate once (twice with the guard "repeat") and say what happened.

    Args:
        inputs: tensors in call order, on the device under test. They are the candidate's to damage: pass
            copies if they are needed afterwards.
        guards: names of `gpuemu.run.guards.GUARDS` to apply.
        scope: makes the context in which the candidate runs (the CPU tier's device redirection).

    Never raises for what the candidate does; KeyboardInterrupt passes through.
    """
    before = mutation.take(inputs, contract.mutates) if "mutation" in guards else {}
    # A kernel that may overwrite its inputs cannot be called twice on them.
    repeated = "repeat" in guards and not contract.mutates
    started = time.perf_counter()
    try:
        with torch.no_grad(), scope():
            returned = candidate.call(*inputs.values(), **params)
            duration_s = time.perf_counter() - started
            outputs, malformed = _as_tensors(returned)
            first = tuple(output.clone() for output in outputs) if repeated else outputs
            again = (
                _as_tensors(candidate.call(*inputs.values(), **params))[0]
                if repeated and not malformed
                else None
            )
    except (Exception, SystemExit) as error:
        return Observation(exception=_describe(error, candidate), duration_s=time.perf_counter() - started)
    findings: list[GuardFinding | None] = []
    if not malformed:
        findings.append(mutation.compare(inputs, before) if before else None)
        findings.append(alias.compare(inputs, outputs, contract.mutates) if "alias" in guards else None)
        findings.append(repeat.compare(first, again) if again is not None else None)
    return Observation(
        outputs=first,
        malformed=malformed,
        findings=tuple(finding for finding in findings if finding is not None),
        duration_s=duration_s,
    )


def _as_tensors(returned: object) -> tuple[tuple[torch.Tensor, ...], str | None]:
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
    return tuple(part.detach().resolve_conj().resolve_neg() for part in parts), None


def _unreadable(tensor: torch.Tensor) -> str | None:
    """What keeps a tensor's elements from being read as they lie in memory, if anything does."""
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


def _describe(error: BaseException, candidate: Candidate) -> CandidateException:
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
    first_line = next(iter(text.splitlines()), "")[:MESSAGE_LENGTH]
    return CandidateException(type(raised).__name__, first_line, _locate(error, raised, candidate), refused)


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
