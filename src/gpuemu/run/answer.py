"""A call's answer as a message: written in the candidate's process, checked and read in the judge's.

Nothing in a message is believed but that its bytes were sent: every number is checked against the memory that
it speaks of, every text is cut.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gpuemu.model.observation import CandidateException, Crash, GuardFinding
from gpuemu.model.verdict import Kind
from gpuemu.run.calling import Returned
from gpuemu.run.channel import MalformedMessageError
from gpuemu.run.guards import SEEN_BESIDE

ALIGNMENT_BYTES = 64
MOST_OUTPUTS = 64
MOST_DIMS = 64  # torch's own limit
MOST_TEXTS = 32
TEXT_LENGTH = 500
_DTYPES = {str(d).removeprefix("torch."): d for d in vars(torch).values() if isinstance(d, torch.dtype)}


def write(returned: Returned, memory: torch.Tensor) -> dict[str, Any]:
    """Put the outputs' bytes into `memory` (uint8) and describe them.

    Outputs too large for it are not written; the message then is of a crash of kind `output_size`.
    """
    sizes = [output.numel() * output.element_size() for output in returned.outputs]
    if sum(size + ALIGNMENT_BYTES for size in sizes) > memory.numel():
        text = f"its outputs take {sum(sizes)} bytes; {memory.numel()} are allowed"
        return {"crash": [str(Kind.OUTPUT_SIZE), text]}
    outputs, offset = [], 0
    for output, size in zip(returned.outputs, sizes, strict=True):
        if size:
            target = memory[offset : offset + size].view(output.dtype).view(output.shape)
            target.copy_(output)
        outputs.append([_name(output.dtype), list(output.shape), offset, output.device.type])
        offset += -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    message: dict[str, Any] = {"outputs": outputs, "duration_s": returned.duration_s}
    if returned.exception is not None:
        message["exception"] = vars(returned.exception)
    for name in ("malformed", "launches"):
        if getattr(returned, name) is not None:
            message[name] = getattr(returned, name)
    for name in ("aliases", "notes", "unfilled_loads"):
        if getattr(returned, name):
            message[name] = getattr(returned, name)
    if returned.findings:
        message["findings"] = [[finding.guard, finding.message] for finding in returned.findings]
    return message


def read(message: Mapping[str, Any], memory: torch.Tensor, device: str, inputs: Sequence[str]) -> Returned:
    """What a message says, with copies of the outputs' bytes in `memory`; those of a device go to `device`.

    Raises:
        MalformedMessageError: it does not say what an answer says.
    """
    if "crash" in message:
        text = as_texts(message["crash"], 2)
        if len(text) != 2 or text[0] not in (Kind.OUTPUT_SIZE, Kind.MEMORY):
            raise MalformedMessageError("a crash that is none")
        return Returned(crash=Crash(text[0], text[1]))
    exception = message.get("exception")
    return Returned(
        outputs=_read_outputs(message.get("outputs"), memory, device),
        malformed=as_text(message["malformed"]) if "malformed" in message else None,
        exception=_read_exception(exception) if exception is not None else None,
        aliases=_read_aliases(message.get("aliases", ()), inputs),
        findings=_read_findings(message.get("findings", ())),
        unfilled_loads=as_texts(message.get("unfilled_loads", ())),
        launches=_count(message["launches"]) if "launches" in message else None,
        duration_s=_seconds(message.get("duration_s")),
        notes=as_texts(message.get("notes", ())),
    )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _read_outputs(described: Any, memory: torch.Tensor, device: str) -> tuple[torch.Tensor, ...]:
    if not isinstance(described, list) or len(described) > MOST_OUTPUTS:
        raise MalformedMessageError("outputs that are no list, or too long a one")
    return tuple(_read_output(output, memory, device) for output in described)


def _read_output(described: Any, memory: torch.Tensor, device: str) -> torch.Tensor:
    if not isinstance(described, list) or len(described) != 4:
        raise MalformedMessageError("an output without dtype, shape, offset and device")
    name, shape, offset, place = described
    dtype = _DTYPES.get(name) if isinstance(name, str) else None
    if dtype is None or not isinstance(shape, list) or len(shape) > MOST_DIMS:
        raise MalformedMessageError("an output of unknown dtype or without a shape")
    sizes = [_count(size) for size in shape]
    size_bytes = math.prod(sizes) * dtype.itemsize
    start = _count(offset)
    if start % ALIGNMENT_BYTES or start + size_bytes > memory.numel():
        raise MalformedMessageError("an output that lies outside the memory for outputs")
    if place not in ("cpu", "cuda"):
        raise MalformedMessageError("an output on an unknown device")
    # A copy before anything is looked at: a thread of the candidate's may go on writing.
    copied = memory[start : start + size_bytes].to(device if place == "cuda" else "cpu", copy=True)
    return copied.view(dtype).view(sizes) if size_bytes else copied.new_empty(sizes, dtype=dtype)


def _read_exception(described: Any) -> CandidateException:
    if not isinstance(described, dict):
        raise MalformedMessageError("an exception that is no object")
    type_, text, where = (as_text(described.get(name, "")) for name in ("type", "message", "location"))
    return CandidateException(type_, text, where, described.get("refused") is True)


def _read_aliases(described: Any, inputs: Sequence[str]) -> tuple[tuple[int, str], ...]:
    if not isinstance(described, list | tuple) or len(described) > MOST_OUTPUTS * max(len(inputs), 1):
        raise MalformedMessageError("aliases that are no list, or too long a one")
    for pair in described:
        if not isinstance(pair, list) or len(pair) != 2 or pair[1] not in inputs:
            raise MalformedMessageError("an alias of no input")
    return tuple((_count(position), name) for position, name in described)


def _read_findings(described: Any) -> tuple[GuardFinding, ...]:
    if not isinstance(described, list | tuple):
        raise MalformedMessageError("findings that are no list")
    pairs = [as_texts(pair, 2) for pair in described[:MOST_TEXTS]]
    if any(len(pair) != 2 or pair[0] not in SEEN_BESIDE for pair in pairs):
        raise MalformedMessageError("a finding of no guard")
    return tuple(GuardFinding(guard, text) for guard, text in pairs)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 48:
        raise MalformedMessageError("a size that is no natural number")
    return value


def _seconds(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and 0 <= value < math.inf else 0.0


def as_text(value: Any) -> str:
    if not isinstance(value, str):
        raise MalformedMessageError("a text that is none")
    return "".join(c if c.isprintable() else " " for c in value[:TEXT_LENGTH])


def as_texts(values: Any, most: int = MOST_TEXTS) -> tuple[str, ...]:
    if not isinstance(values, list | tuple):
        raise MalformedMessageError("texts that are no list")
    return tuple(as_text(value) for value in values[:most])
