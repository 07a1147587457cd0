"""Messages between the judge and a candidate's process: JSON text behind its length, over a Unix socket.

Nothing is unpickled. What comes from a candidate's process is data of a stranger: its size is bounded before it
is read, and whoever uses it checks every field.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any

LARGEST_MESSAGE_BYTES = 1 << 20
_LENGTH = struct.Struct("<I")
_FILES_AT_ONCE = 8
_READ_AT_ONCE = 1 << 16


class ChannelClosedError(Exception):
    """The other side is gone."""


class MalformedMessageError(Exception):
    """What came is no message."""


class Channel:
    """One end of a stream socket. Messages of one side arrive in order; files travel with a message."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._pending = b""
        self._files: list[int] = []

    def fileno(self) -> int:
        return self.socket.fileno()

    def close(self) -> None:
        """Close this end and every file that nobody took."""
        self.socket.close()
        for file in self.take_files():
            os.close(file)

    def send(self, message: Mapping[str, Any], files: Sequence[int] = ()) -> None:
        """Send a message, and copies of open files with it.

        Raises:
            ChannelClosedError: nobody reads any more.
        """
        text = json.dumps(message, separators=(",", ":")).encode()
        data = _LENGTH.pack(len(text)) + text
        try:
            sent = socket.send_fds(self.socket, [data], list(files)) if files else 0
            self.socket.sendall(data[sent:])
        except OSError as error:
            raise ChannelClosedError(str(error)) from error

    def receive(self) -> dict[str, Any]:
        """The next message; waits for it as long as the socket's timeout allows.

        Raises:
            ChannelClosedError: the other side closed. TimeoutError: nothing came in time.
            MalformedMessageError: too long, no JSON, or no object.
        """
        while True:
            message = self.next_message()
            if message is not None:
                return message
            self.read()

    def read(self) -> None:
        """Take in what has come; waits for something if nothing has.

        Raises:
            ChannelClosedError, TimeoutError: as `receive`.
        """
        try:
            data, files, _, _ = socket.recv_fds(self.socket, _READ_AT_ONCE, _FILES_AT_ONCE)
        except TimeoutError:
            raise
        except OSError as error:
            raise ChannelClosedError(str(error)) from error
        self._files += files
        if not data:
            raise ChannelClosedError("the other side closed")
        self._pending += data

    def next_message(self) -> dict[str, Any] | None:
        """A message that has come in full, if there is one.

        Raises:
            MalformedMessageError: as `receive`.
        """
        if len(self._pending) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._pending)
        if length > LARGEST_MESSAGE_BYTES:
            raise MalformedMessageError(
                f"a message of {length} bytes; at most {LARGEST_MESSAGE_BYTES} are read"
            )
        if len(self._pending) < _LENGTH.size + length:
            return None
        text = self._pending[_LENGTH.size : _LENGTH.size + length]
        self._pending = self._pending[_LENGTH.size + length :]
        try:
            message = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise MalformedMessageError(f"a message that is no JSON ({type(error).__name__})") from error
        if not isinstance(message, dict):
            raise MalformedMessageError(f"a message that is a {type(message).__name__}, not an object")
        return message

    def take_files(self) -> list[int]:
        """The files that came with messages so far; the caller owns them."""
        files, self._files = self._files, []
        return files
