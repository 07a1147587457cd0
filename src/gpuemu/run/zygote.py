"""The judge's side of the process that workers are forked from (`gpuemu.zygote` is the other)."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import asdict, replace

from gpuemu import environment
from gpuemu.errors import GpuemuError
from gpuemu.run import ending
from gpuemu.run.channel import Channel, ChannelClosedError, MalformedMessageError
from gpuemu.run.protections import Policy, Protections

MODULE = "gpuemu.zygote"
START_TIMEOUT_S = 120.0  # for torch to be imported on a slow disk
END_TIMEOUT_S = 5.0
PRINTED_BYTES = 1 << 16


class Zygote:
    """Starts it, talks to it, keeps the end of what it and its workers print, and ends it.

    control: messages to and from it. output: the file that they print to. printed: the end of that.
    resident_bytes: what a worker may hold in memory, where its address space is not limited.
    is_interpreted: whether Triton kernels are interpreted there, or compiled.
    """

    def __init__(
        self, policy: Policy, protect: bool, resident_bytes: int | None, *, is_interpreted: bool
    ) -> None:
        ours, theirs = socket.socketpair()
        self.control = Channel(ours)
        self._scratch = tempfile.mkdtemp(prefix="gpuemu-")
        policy = replace(policy, writable=(self._scratch,))
        self.output, written = os.pipe()
        os.set_blocking(self.output, False)
        self.printed = b""
        self.protections = Protections((), {})
        self._ready = False
        try:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-P", "-m", MODULE, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=written,
                pass_fds=(theirs.fileno(),),
                env=environment.make_worker_environment(self._scratch, is_interpreted),
                start_new_session=True,
            )
        finally:
            theirs.close()
            os.close(written)
        self.control.send({"policy": asdict(policy), "protect": protect, "resident_bytes": resident_bytes})

    def wait_until_ready(self) -> None:
        """Raises: GpuemuError: it did not come up."""
        if self._ready:
            return
        self.control.socket.settimeout(START_TIMEOUT_S)
        try:
            message = self.control.receive()
            self.protections = Protections.from_json(message["ready"])
        except (ChannelClosedError, MalformedMessageError, TimeoutError, KeyError) as error:
            self.drain()
            self.close()
            said = ending.last_line(self.printed) or str(error)
            raise GpuemuError(f"the worker process did not start: {said}") from error
        self._ready = True

    def drain(self) -> None:
        """Take in what was printed; only the end is kept."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.output, PRINTED_BYTES):
                self.printed = (self.printed + data)[-PRINTED_BYTES:]

    def close(self) -> None:
        """End it; its namespace, where it has one, ends with it."""
        if self._process.poll() is None:
            self.control.close()  # it ends everything and itself
            try:
                self._process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        else:
            self.control.close()
        with contextlib.suppress(OSError):
            os.close(self.output)
        shutil.rmtree(self._scratch, ignore_errors=True)
