"""The process that candidates' processes are forked from: `python -m gpuemu.zygote FILE-NUMBER`.

It shuts itself off first, while it has one thread, then imports what every candidate needs, and forks a worker
whenever the judge asks for one. It never imports a candidate, and it knows no seed and no answer.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from gpuemu import environment
from gpuemu.run import sandbox
from gpuemu.run.channel import Channel, ChannelClosedError
from gpuemu.run.protections import UNPROTECTED

CHECK_MEMORY_S = 0.05


def main(arguments: list[str]) -> None:
    """Serve the judge at the other end of the socket until it closes."""
    control = Channel(socket.socket(fileno=int(arguments[0])))
    order = control.receive()
    policy = sandbox.Policy(**order["policy"])
    protect = order["protect"] is True
    protections = sandbox.isolate(policy) if protect else UNPROTECTED
    _preload(interpreted=order["resident_bytes"] is None)
    control.send({"ready": protections.to_json()})
    with contextlib.suppress(ChannelClosedError):
        _Zygote(control, policy, protect, order["resident_bytes"]).serve()
    sandbox.kill_others()


def _preload(interpreted: bool) -> None:
    """Import what takes long, but nothing that starts threads or a device's context.

    interpreted: Triton's kernels will be; what that needs takes half a second, which each worker would spend.
    """
    import importlib.util

    importlib.import_module("gpuemu.serving")
    if importlib.util.find_spec("triton") is not None:
        importlib.import_module("triton")
        if interpreted:
            environment.set_triton_interpret(True)
            importlib.import_module("gpuemu.candidates.triton_launch")


class _Zygote:
    """Forks workers and ends them.

    resident_bytes: what a worker may hold in memory; looked at while it runs, where its address space cannot be
    limited (CUDA reserves huge ranges).
    """

    def __init__(
        self, control: Channel, policy: sandbox.Policy, protect: bool, resident_bytes: int | None
    ) -> None:
        self._control, self._policy, self._protect = control, policy, protect
        self._resident_bytes = resident_bytes
        self._is_too_large = False
        self._worker: int | None = None
        self._status: int | None = None
        self._wake, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> None:
        """Do what the judge says until it closes the channel.

        Raises:
            ChannelClosedError: it did.
        """
        while True:
            message = self._control.next_message()
            if message is None:
                sources: list[Any] = [self._control.socket, self._wake]
                watching = self._resident_bytes is not None and self._worker is not None
                readable, _, _ = select.select(sources, [], [], CHECK_MEMORY_S if watching else None)
                if watching:
                    self._end_if_too_large()
                if self._wake in readable:
                    self._reap()
                if self._control.socket in readable:
                    self._control.read()
            elif "start" in message:
                self._start(message)
            elif "stop" in message:
                self._stop(float(message["stop"]))

    def _start(self, message: dict[str, Any]) -> None:
        channel, outputs = self._control.take_files()
        self._status, self._is_too_large = None, False
        self._worker = os.fork()
        if self._worker == 0:
            self._become_worker(channel, outputs, int(message["output_bytes"]))
        os.close(channel)
        os.close(outputs)

    def _become_worker(self, channel: int, outputs: int, output_bytes: int) -> None:
        """In the forked child: never returns."""
        status = 70
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            self._control.close()
            os.close(self._wake)
            from gpuemu.serving import serve

            policy = self._policy if self._protect else None
            serve(Channel(socket.socket(fileno=channel)), outputs, output_bytes, policy)
            status = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)

    def _stop(self, patience_s: float) -> None:
        """End the worker and what it started; one that is ending by itself is waited for."""
        deadline = time.monotonic() + patience_s
        self._reap()
        while self._worker is not None and time.monotonic() < deadline:
            select.select([self._wake], [], [], max(0.0, deadline - time.monotonic()))
            self._reap()
        status = self._status
        sandbox.kill_others()
        self._worker = None
        self._control.send({"ended": status, "too_large": self._is_too_large})

    def _end_if_too_large(self) -> None:
        with contextlib.suppress(OSError):  # it may be gone
            pages = int(Path(f"/proc/{self._worker}/statm").read_text().split()[1])
            if pages * mmap.PAGESIZE > (self._resident_bytes or 0):
                self._is_too_large = True
                sandbox.kill_others()

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 4096)
        with contextlib.suppress(ChildProcessError):
            while True:
                ended, status = os.waitpid(-1, os.WNOHANG)
                if ended == 0:
                    break
                if ended == self._worker:
                    self._worker, self._status = None, status


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # to take torch down object by object takes as long as to import it, and the judge waits
