"""The caller's end, with a doorkeeper that the test plays."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from holdfast.engine.exec_stream import ERRORS, ExecStream
from holdfast.errors import EngineUnavailable
from holdfast.runtime.remote import relay_frames
from holdfast.runtime.remote.relay import CallerStreams, Relay
from holdfast.runtime.remote.relay_frames import ALIVE, EXIT, OUTPUT, frame


@pytest.fixture
def ends() -> Iterator[tuple[Relay, socket.socket]]:
    ours, theirs = socket.socketpair()
    stream = ExecStream(ours)
    with theirs:
        yield Relay(stream, CallerStreams("none", "pipe", "pipe")), theirs
        stream.close()


def sent(data: bytes, number: int = 1) -> bytes:
    return struct.pack(">BxxxI", number, len(data)) + data


def test_output_and_exit_code_arrive(
    ends: tuple[Relay, socket.socket], capfd: pytest.CaptureFixture[str]
) -> None:
    relay, other = ends
    other.sendall(sent(frame(ALIVE) + frame(OUTPUT, b"some text") + frame(EXIT, b"7")))
    assert relay.run(["ls"], {}) == 7
    assert capfd.readouterr().out == "some text"


def test_a_silent_machine_is_a_lost_connection(
    ends: tuple[Relay, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine can keep the connection to a program that it has killed."""
    monkeypatch.setattr(relay_frames, "SILENCE_SECONDS", 0.1)
    with pytest.raises(EngineUnavailable, match="its machine does not answer"):
        ends[0].run(["ls"], {})


def test_a_doorkeeper_that_fails_is_quoted(ends: tuple[Relay, socket.socket]) -> None:
    relay, other = ends
    other.sendall(sent(b"Traceback\nMemoryError: \x1b[1mno more\n", ERRORS))
    other.shutdown(socket.SHUT_WR)
    with pytest.raises(EngineUnavailable, match="MemoryError") as lost:
        relay.run(["ls"], {})
    assert "\x1b" not in str(lost.value)
