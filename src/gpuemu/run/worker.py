"""The blind worker: a candidate in a process of its own, which gets inputs, gives bytes and knows no answer.

The judge starts a *zygote* (`gpuemu.zygote`): it shuts itself off from the machine, imports torch and nothing
of the candidate, and forks a worker whenever it is told to. The worker imports the candidate and answers calls.
Expected values, tolerances and the seed are in neither: they never leave this process. A worker that crashes,
hangs or answers with something that is no answer is ended, with everything that it started, and the next call
finds a new one.
"""

from __future__ import annotations

import contextlib
import secrets
import select
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from gpuemu.errors import TargetError
from gpuemu.model.observation import Crash
from gpuemu.model.verdict import Kind
from gpuemu.run import answer, ending
from gpuemu.run.calling import Manner, Placed, Returned
from gpuemu.run.channel import Channel, ChannelClosedError, MalformedMessageError
from gpuemu.run.guards import red_zone
from gpuemu.run.host_copies import HostCopies
from gpuemu.run.sandbox import Policy, Protections
from gpuemu.run.shared_memory import SharedMemory
from gpuemu.run.zygote import Zygote

END_TIMEOUT_S = 5.0
HANGS = 3
SMALLEST_ARENA_BYTES = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What a candidate may use.

    timeout_s: per call; its import has `load_timeout_s`. After `HANGS` calls without an answer a call has a
    tenth, so that a kernel that never answers does not hold the whole plan up. memory_bytes: of address space
    beyond torch's on the CPU tier, resident on a device's. output_bytes: of all outputs of a call together.
    processes: threads included.
    """

    timeout_s: float = 60.0
    memory_bytes: int = 8 << 30
    output_bytes: int = 1 << 30
    processes: int = 1024

    @property
    def load_timeout_s(self) -> float:
        """An import may compile."""
        return max(30.0, 2 * self.timeout_s)


@dataclass(frozen=True)
class Job:
    """What a worker is to load: what its import needs to know, and nothing of what it is judged by.

    op, inputs, params: names, to compare its signature with; None for the op leaves that out. gradients: names
    of the inputs whose gradients its own backward pass is to give; empty for the kernel itself.
    """

    target: str
    device: str = "cpu"
    op: str | None = None
    inputs: tuple[str, ...] = ()
    params: tuple[str, ...] = ()
    gradients: tuple[str, ...] = ()


OP_OBJECT = "object"


@dataclass(frozen=True)
class Loaded:
    """What a worker says of the candidate that it imported.

    op: the name in its mark; a mark that holds an `Op` itself is `OP_OBJECT`. proposals: built-in ops whose
    call fits its signature, where neither job nor mark names one.
    """

    name: str
    kind: str
    op: str | None = None
    source_path: str | None = None
    source_digest: str | None = None
    block_sizes: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    proposals: tuple[str, ...] = ()


class WorkerCaller:
    """Calls a candidate in a worker; a `Caller`.

    hidden: folders that the worker must not see (the run store). protect: False leaves every protection of the
    system off; what is then missing, `protections` says.
    """

    def __init__(
        self, device: str = "cpu", limits: Limits | None = None, hidden: Sequence[Path] = (),
        protect: bool = True,
    ) -> None:  # fmt: skip
        self._device, self._limits = device, limits or Limits()
        self._hidden = tuple(str(path.absolute()) for path in hidden)
        self._protect = protect
        self._job: Job | None = None
        self._zygote: Zygote | None = None
        self._worker: Channel | None = None
        self._inputs = SharedMemory(SMALLEST_ARENA_BYTES)
        self._outputs = SharedMemory(self._limits.output_bytes)
        self._placed: Placed | None = None
        self._held = HostCopies()
        self.protections = Protections((), {})
        self.restarts = 0
        self._hangs = 0
        self._was_too_large = False

    def __enter__(self) -> WorkerCaller:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def printed(self) -> str:
        """The end of what the candidate wrote to stdout and stderr."""
        if self._zygote is None:
            return ""
        self._zygote.drain()
        text = self._zygote.printed.decode(errors="replace")
        return "".join(c if c.isprintable() or c in "\n\t" else " " for c in text)

    def start(self) -> None:
        """Start the zygote, which then imports torch while the judge goes on; a no-op if it runs."""
        if self._zygote is None:
            is_device = self._device != "cpu"  # whose driver reserves huge ranges of addresses
            memory_bytes = self._limits.memory_bytes
            policy = Policy(
                hidden=self._hidden, memory_bytes=None if is_device else memory_bytes,
                processes=self._limits.processes,
            )  # fmt: skip
            resident_bytes = memory_bytes if is_device else None
            self._zygote = Zygote(policy, self._protect, resident_bytes, is_interpreted=not is_device)

    def load(self, job: Job) -> Loaded:
        """Import a candidate.

        Raises:
            TargetError: it cannot be found or imported, or its signature does not suit the op.
            GpuemuError: no worker can be started.
        """
        self._job, self._hangs = job, 0
        self._stop()
        lost, reply = self._start_worker()
        if lost is not None:
            raise TargetError(f"{job.target}: cannot be imported: {lost.message}")
        return _read_loaded(reply, job)

    def place(self, inputs: Mapping[str, torch.Tensor], pattern: str) -> Placed:
        """Lay inputs out in the shared memory."""
        plan = red_zone.plan_arena(inputs)
        if plan.size_bytes > self._inputs.size_bytes:
            self._inputs.close()
            self._inputs = SharedMemory(1 << plan.size_bytes.bit_length())
            self._placed = None
            if self._worker is not None:
                self._send_inputs()
        if self._placed is None or self._placed.plan != plan:
            arena = self._inputs.bytes[: plan.size_bytes]
            self._placed = Placed(arena, plan, red_zone.views(arena, plan))
        red_zone.fill(self._placed.arena, plan, self._held.of(inputs), pattern)
        return self._placed

    def call(self, placed: Placed, params: Mapping[str, Any], manner: Manner) -> Returned:
        """Call the candidate once; a worker that was lost is started anew before."""
        if self._worker is None:
            self.restarts += 1
            lost, _ = self._start_worker()
            if lost is not None:
                return Returned(crash=replace(lost, message=f"it could not be started again: {lost.message}"))
        nonce = secrets.token_hex(8)
        message = {
            "call": nonce, "plan": placed.plan.to_json(), "params": dict(params), "pattern": manner.pattern,
            "guards": list(manner.guards), "launching": manner.launching, "may_draw": manner.may_draw,
        }  # fmt: skip
        started = time.perf_counter()
        timeout_s = self._limits.timeout_s / (1 if self._hangs < HANGS else 10)
        lost, reply = self._ask(message, timeout_s)
        self._hangs += lost is not None and lost.kind == Kind.HANG
        if lost is not None:
            return Returned(crash=lost, duration_s=time.perf_counter() - started)
        try:
            if reply.get("answer") != nonce:
                raise MalformedMessageError("an answer to no question")
            returned = answer.read(reply, self._outputs.bytes, self._device, list(placed.views))
        except MalformedMessageError as error:
            self._stop()
            return Returned(crash=Crash(Kind.PROTOCOL, f"it answered with {error}"))
        self._outputs.release(sum(output.nbytes + 64 for output in returned.outputs))
        if reply.get("spent") is True:  # a device error that stays
            self._stop()
        return returned

    def close(self) -> None:
        """End the worker, the zygote and whatever they started."""
        self._stop()
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None

    def _start_worker(self) -> tuple[Crash | None, dict[str, Any]]:
        """Fork a worker and let it import the candidate: its answer, or how it was lost."""
        if self._job is None:
            raise ValueError("nothing was loaded")
        self.start()
        zygote = self._zygote
        assert zygote is not None  # noqa: S101
        ours, theirs = socket.socketpair()
        with contextlib.closing(theirs):
            try:
                zygote.wait_until_ready()
                zygote.control.send(
                    {"start": True, "output_bytes": self._outputs.size_bytes},
                    [theirs.fileno(), self._outputs.file],
                )
            except ChannelClosedError:
                ours.close()
                self._end_zygote()
                return Crash(Kind.CRASH, "its parent process ended"), {}
        self._worker = Channel(ours)
        self._send_inputs()
        lost, reply = self._ask({"load": vars(self._job)}, self._limits.load_timeout_s)
        if lost is None and "protections" in reply:
            confined = Protections.from_json(reply["protections"])
            self.protections = zygote.protections.join(confined)
        return lost, reply

    def _send_inputs(self) -> None:
        assert self._worker is not None  # noqa: S101
        with contextlib.suppress(ChannelClosedError):  # the next question finds out
            self._worker.send({"inputs": self._inputs.size_bytes}, [self._inputs.file])

    def _ask(self, message: Mapping[str, Any], timeout_s: float) -> tuple[Crash | None, dict[str, Any]]:
        """The worker's reply, or how it was lost; then it is ended."""
        worker, zygote = self._worker, self._zygote
        assert worker is not None and zygote is not None  # noqa: S101
        deadline = time.monotonic() + timeout_s
        try:
            worker.socket.settimeout(timeout_s)
            worker.send(message)
            worker.socket.setblocking(False)
            while True:
                reply = worker.next_message()
                if reply is not None:
                    return None, reply
                left = deadline - time.monotonic()
                if left <= 0:
                    self._stop()
                    return Crash(Kind.HANG, f"no answer within {timeout_s:g} s"), {}
                sources: list[Any] = [worker.socket, zygote.output]
                readable, _, _ = select.select(sources, [], [], left)
                if zygote.output in readable:
                    zygote.drain()
                if worker.socket in readable:
                    with contextlib.suppress(BlockingIOError):
                        worker.read()
        except ChannelClosedError:
            return self._find_out(), {}
        except MalformedMessageError as error:
            self._stop()
            return Crash(Kind.PROTOCOL, f"it sent {error}"), {}

    def _find_out(self) -> Crash:
        """How a worker ended that closed its channel."""
        status = self._stop(patience_s=1.0)
        zygote = self._zygote
        if zygote is None:
            return Crash(Kind.CRASH, "it ended its parent process")
        if self._was_too_large:
            return Crash(Kind.MEMORY, f"it held more than {self._limits.memory_bytes} bytes of memory")
        said = ending.last_line(zygote.printed)
        message = ending.describe(status)
        return Crash(Kind.CRASH, f"{message}; it said: {said}" if said else message)

    def _stop(self, patience_s: float = 0.0) -> int | None:
        """End the worker: its wait status if it ended by itself within `patience_s`."""
        worker, zygote = self._worker, self._zygote
        self._worker = None
        if worker is None or zygote is None:
            return None
        worker.close()
        try:
            zygote.control.socket.settimeout(END_TIMEOUT_S + patience_s)
            zygote.control.send({"stop": patience_s})
            reply = zygote.control.receive()
        except (ChannelClosedError, MalformedMessageError, TimeoutError):
            self._end_zygote()
            return None
        zygote.drain()
        status = reply.get("ended")
        self._was_too_large = reply.get("too_large") is True
        return status if isinstance(status, int) else None

    def _end_zygote(self) -> None:
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None


def _read_loaded(reply: Mapping[str, Any], job: Job) -> Loaded:
    """Raises: TargetError: what the worker says of its import."""
    if "refused" in reply:
        raise TargetError(answer.as_text(reply["refused"]))
    try:
        sizes = reply["block_sizes"]
        return Loaded(
            name=answer.as_text(reply["name"]),
            kind=answer.as_text(reply["kind"]),
            op=None if reply["op"] is None else answer.as_text(reply["op"]),
            source_path=None if reply["source_path"] is None else answer.as_text(reply["source_path"]),
            source_digest=None if reply["source_digest"] is None else answer.as_text(reply["source_digest"]),
            block_sizes=tuple(size for size in sizes if type(size) is int)[:64],
            notes=answer.as_texts(reply["notes"]),
            proposals=answer.as_texts(reply["proposals"]),
        )
    except (KeyError, TypeError, MalformedMessageError) as error:
        raise TargetError(f"{job.target}: its import spoiled the worker's answer ({error})") from error
