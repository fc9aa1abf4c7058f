"""The connection to a program in a container, over a socket of the test's."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from holdfast.engine.exec_stream import ExecStream


def piece(number: int, data: bytes) -> bytes:
    return struct.pack(">BxxxI", number, len(data)) + data


@pytest.fixture
def ends() -> Iterator[tuple[ExecStream, socket.socket]]:
    ours, theirs = socket.socketpair()
    with theirs:
        stream = ExecStream(ours)
        yield stream, theirs
        stream.close()


def test_both_ways(ends: tuple[ExecStream, socket.socket]) -> None:
    stream, other = ends
    stream.send(b"question")
    assert other.recv(100) == b"question"
    other.sendall(piece(1, b"answer"))
    assert stream.receive() == [(1, b"answer")]


def test_an_end_differs_from_silence(ends: tuple[ExecStream, socket.socket]) -> None:
    stream, other = ends
    other.shutdown(socket.SHUT_RDWR)
    with pytest.raises(EOFError):
        stream.receive()
    with pytest.raises(EOFError):
        stream.send(b"x")
