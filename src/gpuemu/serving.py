"""The worker's own side: import a candidate and answer calls, one after another, all alike.

Whatever a message asks for, the same frames call the candidate. Its answers are bytes in shared memory; what is
said beside them is believed by nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from gpuemu.candidates import backward, loader
from gpuemu.errors import GpuemuError
from gpuemu.ops.registry import load_ops
from gpuemu.run import answer, sandbox
from gpuemu.run.callee import Callee
from gpuemu.run.calling import Manner, Returned
from gpuemu.run.channel import Channel, ChannelClosedError
from gpuemu.run.guards import red_zone
from gpuemu.run.protections import UNPROTECTED
from gpuemu.run.shared_memory import SharedMemory
from gpuemu.run.worker import OP_OBJECT


def serve(channel: Channel, outputs: int, output_bytes: int, policy: sandbox.Policy | None) -> None:
    """Answer the judge until it closes the channel.

    Args:
        outputs: the file of the memory for outputs, of `output_bytes`. policy: None leaves it unconfined.
    """
    memory = SharedMemory(output_bytes, outputs)
    memory.close()
    protections = UNPROTECTED if policy is None else sandbox.confine(policy)
    server = _Server(memory.bytes)
    try:
        while True:
            message = channel.receive()
            for file in channel.take_files():
                server.use_inputs(file, int(message["inputs"]))
            if "load" in message:
                channel.send({**server.load(message["load"]), "protections": protections.to_json()})
            elif "call" in message:
                channel.send({**server.call(message), "answer": message["call"]})
    except ChannelClosedError:
        return


class _Server:
    def __init__(self, outputs: torch.Tensor) -> None:
        self._outputs = outputs
        self._inputs: torch.Tensor | None = None
        self._on_device: torch.Tensor | None = None
        self._device = "cpu"
        self._callee: Callee | None = None

    def use_inputs(self, file: int, size_bytes: int) -> None:
        """Look for inputs in this file from now on."""
        memory = SharedMemory(size_bytes, file)
        memory.close()
        self._inputs = memory.bytes

    def load(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Import the candidate: what it is, or in one line why it cannot be had."""
        self._device = str(job["device"])
        inputs, op = tuple(job["inputs"]), job["op"]
        try:
            candidate = loader.load(str(job["target"]), self._device)
            proposals = () if op or candidate.op else loader.propose_ops(candidate, load_ops().values())
            if op:
                loader.check_arguments(candidate, op, inputs, job["params"])
            if job["gradients"]:
                candidate = backward.adapt(candidate, inputs, tuple(job["gradients"]))
        except GpuemuError as error:
            return {"refused": str(error)}
        self._callee = Callee(
            candidate, loader.tier_scope(self._device, candidate), loader.tier_watch(self._device, candidate)
        )
        return {
            "name": candidate.name, "kind": candidate.kind,
            "op": candidate.op if candidate.op is None or isinstance(candidate.op, str) else OP_OBJECT,
            "proposals": tuple(proposals)[:5],
            "source_path": candidate.source_path, "source_digest": candidate.source_digest,
            "block_sizes": candidate.block_sizes, "notes": candidate.notes,
        }  # fmt: skip

    def call(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Call the candidate on what lies in the shared memory."""
        assert self._inputs is not None and self._callee is not None  # noqa: S101
        plan = red_zone.ArenaPlan.from_json(message["plan"])
        shared = self._inputs[: plan.size_bytes]
        arena = shared if self._device == "cpu" else self._copy_to_device(shared)
        untouched = arena if self._device == "cpu" else arena.clone()
        manner = Manner(message["pattern"], tuple(message["guards"]), message["launching"], message["may_draw"])
        returned = self._callee.call(red_zone.views(arena, plan), message["params"], manner)
        if self._device == "cpu":
            return answer.write(returned, self._outputs)
        try:
            if not torch.equal(arena, untouched):  # compared where it lies; as a rule nothing is to be fetched
                shared.copy_(arena)
            return answer.write(returned, self._outputs)
        except RuntimeError as error:  # the device's context is lost, and with it the outputs
            if returned.exception is None:
                returned = Returned(exception=self._callee.describe(error), duration_s=returned.duration_s)
            return {**answer.write(Returned(exception=returned.exception), self._outputs), "spent": True}

    def _copy_to_device(self, shared: torch.Tensor) -> torch.Tensor:
        """The arena on the device, at the same address as long as its size stays."""
        if self._on_device is None or self._on_device.numel() != shared.numel():
            self._on_device = torch.empty(shared.numel(), dtype=torch.uint8, device=self._device)
        return self._on_device.copy_(shared)
