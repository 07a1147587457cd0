"""Calling a candidate in this process: for trusted kernels; the record says so."""

from __future__ import annotations

import dis
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from gpuemu.errors import CandidateRefusedError
from gpuemu.model.candidate import Candidate
from gpuemu.model.observation import CandidateException, GuardFinding, Observation, Slice
from gpuemu.model.op import Contract
from gpuemu.run.guards import alias, batch_invariance, mutation, repeat

Scope = Callable[[], AbstractContextManager[Any]]

MESSAGE_LENGTH = 300
_RAISE = dis.opmap["RAISE_VARARGS"]
_TOOLS = ("/triton/", "/gpuemu/candidates/")  # folders whose frames are not the kernel's


def observe(
    candidate: Candidate,
    inputs: Mapping[str, torch.Tensor],
    params: Mapping[str, Any],
    contract: Contract,
    guards: Sequence[str] = (),
    scope: Scope = nullcontext,
    calls: int = 2,
    slices: Sequence[Slice] = (),
) -> Observation:
    """Call the candidate and say what happened.

    Args:
        inputs: tensors in call order, on the device under test. They are the candidate's to damage: pass
            copies if they are needed afterwards.
        guards: names of `gpuemu.run.guards.GUARDS` to apply.
        scope: makes the context in which the candidate runs (the CPU tier's device redirection).
        calls: how often it is called with the guard "repeat"; without, once.
        slices: parts of the case to run alone, with the guard "batch_invariance".

    Never raises for what the candidate does; KeyboardInterrupt passes through.

    Raises:
        OpDefinitionError: a slice's dim cannot be found among the outputs' axes.
    """
    shared = (*contract.mutates, *contract.aliases)
    kept = [name for name in inputs if name not in contract.mutates]
    before = mutation.take(inputs, kept) if "mutation" in guards else {}
    calls = max(calls, 1) if "repeat" in guards else 1
    slices = slices if batch_invariance.NAME in guards else ()
    overwritten = mutation.take(inputs, contract.mutates) if calls > 1 else {}
    caller = _Caller(candidate, params, scope)
    try:
        outputs, malformed = caller.call(inputs)
        if malformed:
            return Observation(malformed=malformed, duration_s=caller.duration_s)
        # A later call may write into what an earlier one returned.
        first = tuple(output.clone() for output in outputs) if calls > 1 or slices else outputs
        duration_s = caller.duration_s
        repeats, finding = _repeat(caller, inputs, overwritten, first, range(2, calls + 1))
        findings = [
            mutation.compare(inputs, before) if before else None,
            alias.compare(inputs, outputs, shared) if "alias" in guards else None,
            finding,
        ]
        if not repeats:
            findings += [_run_alone(caller, first, part) for part in slices]
    except _CandidateError as raised:
        return Observation(exception=_describe(raised.error, candidate), duration_s=caller.duration_s)
    return Observation(
        outputs=first,
        findings=tuple(finding for finding in findings if finding is not None),
        calls=calls,
        repeats=repeats,
        duration_s=duration_s,
        notes=tuple(getattr(candidate.call, "notes", ())),
    )


def repeat_again(
    candidate: Candidate,
    inputs: Mapping[str, torch.Tensor],
    params: Mapping[str, Any],
    contract: Contract,
    observation: Observation,
    calls: int,
    scope: Scope = nullcontext,
) -> Observation:
    """Further calls on copies of the same inputs, up to `calls` in all, added to what was observed."""
    further = range(observation.calls + 1, calls + 1)
    if not further or observation.exception is not None or observation.malformed is not None:
        return observation
    caller = _Caller(candidate, params, scope)
    overwritten = mutation.take(inputs, contract.mutates) if len(further) > 1 else {}
    try:
        repeats, finding = _repeat(caller, inputs, overwritten, observation.outputs, further)
    except _CandidateError as raised:
        return replace(observation, exception=_describe(raised.error, candidate))
    findings = observation.findings if finding is None else (*observation.findings, finding)
    repeats = {**observation.repeats, **repeats}
    return replace(observation, calls=calls, repeats=repeats, findings=findings)


class _CandidateError(Exception):
    """Carries what a candidate raised."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(type(error)))
        self.error = error


class _Caller:
    """Calls a candidate in its scope; what it raises comes out as `_CandidateError`."""

    def __init__(self, candidate: Candidate, params: Mapping[str, Any], scope: Scope) -> None:
        self.candidate, self.params, self.scope = candidate, params, scope
        self.duration_s = 0.0  # of the latest call

    def call(self, inputs: Mapping[str, torch.Tensor]) -> tuple[tuple[torch.Tensor, ...], str | None]:
        """The outputs, or what is wrong with the return value."""
        started = time.perf_counter()
        try:
            with torch.no_grad(), self.scope():
                returned = self.candidate.call(*inputs.values(), **self.params)
                self.duration_s = time.perf_counter() - started
                return _as_tensors(returned)
        except (Exception, SystemExit) as error:
            self.duration_s = time.perf_counter() - started
            raise _CandidateError(error) from error


def _repeat(
    caller: _Caller,
    inputs: Mapping[str, torch.Tensor],
    overwritten: Mapping[str, torch.Tensor],
    first: tuple[torch.Tensor, ...],
    numbers: Iterable[int],
) -> tuple[dict[int, tuple[torch.Tensor, ...]], GuardFinding | None]:
    """Outputs of the calls of these numbers that differ from the first; a finding if their form does."""
    different: dict[int, tuple[torch.Tensor, ...]] = {}
    for number in numbers:
        mutation.restore(inputs, overwritten)
        again, _ = caller.call(inputs)
        finding = repeat.compare(first, again, number)
        if finding is not None:
            return different, finding
        if not repeat.all_same_bits(first, again):
            different[number] = tuple(output.clone() for output in again)
    return different, None


def _run_alone(caller: _Caller, outputs: tuple[torch.Tensor, ...], part: Slice) -> GuardFinding | None:
    """The finding, if a part of the case gives other bits alone, or cannot be run alone."""
    try:
        alone, malformed = caller.call(part.inputs)
    except _CandidateError as raised:
        error = raised.error
        message = f"{part.describe()} raises {type(error).__name__}: {_first_line(_text_of(error))}"
        return GuardFinding(batch_invariance.NAME, message)
    if malformed:
        return GuardFinding(batch_invariance.NAME, f"{part.describe()}: {malformed}")
    return batch_invariance.compare(outputs, alone, part)


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
