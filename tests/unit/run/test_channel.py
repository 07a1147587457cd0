"""Messages over a socket, from a friend and from a stranger."""

from __future__ import annotations

import os
import socket
import struct

import pytest

from gpuemu.run.channel import (
    LARGEST_MESSAGE_BYTES,
    Channel,
    ChannelClosedError,
    MalformedMessageError,
)


@pytest.fixture
def ends() -> tuple[Channel, Channel]:
    a, b = socket.socketpair()
    return Channel(a), Channel(b)


def test_messages_arrive_whole_and_in_order(ends: tuple[Channel, Channel]) -> None:
    here, there = ends
    sent = [{"n": number, "text": "é" * 1000} for number in range(20)]
    for message in sent:
        here.send(message)
    assert [there.receive() for _ in sent] == sent


def test_files_travel_with_a_message(ends: tuple[Channel, Channel]) -> None:
    here, there = ends
    reading, writing = os.pipe()
    here.send({"file": True}, [writing])
    assert there.receive() == {"file": True}
    [file] = there.take_files()
    os.write(file, b"x")
    assert os.read(reading, 9) == b"x"
    assert there.take_files() == []
    for number in (reading, writing, file):
        os.close(number)


def test_a_message_in_parts_is_awaited(ends: tuple[Channel, Channel]) -> None:
    here, there = ends
    here.socket.send(struct.pack("<I", 2) + b"{")
    there.read()
    assert there.next_message() is None
    here.socket.send(b"}")
    assert there.receive() == {}


def test_the_other_side_gone_is_said(ends: tuple[Channel, Channel]) -> None:
    here, there = ends
    here.close()
    with pytest.raises(ChannelClosedError):
        there.receive()
    with pytest.raises(ChannelClosedError):
        for _ in range(3):
            there.send({"x": 1})


def test_silence_is_a_timeout(ends: tuple[Channel, Channel]) -> None:
    ends[1].socket.settimeout(0.01)
    with pytest.raises(TimeoutError):
        ends[1].receive()


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("<I", LARGEST_MESSAGE_BYTES + 1),
        b"garbage" * 100,
        struct.pack("<I", 4) + b"nope",
        struct.pack("<I", 2) + b"[]",
        struct.pack("<I", 2) + b"\xff\xff",
        struct.pack("<I", 100_000) + b"[" * 100_000,
    ],
)
def test_what_is_no_message_is_refused(ends: tuple[Channel, Channel], data: bytes) -> None:
    ends[0].socket.send(data)
    with pytest.raises(MalformedMessageError):
        ends[1].receive()
