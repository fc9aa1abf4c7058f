"""The gateway's first process: the process that gets a connection, and the ends of real processes."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from holdfast.runtime.gateway.gateway_server import ConnectionDoor

PATIENCE = 60.0
SESSIONS = {f"127.0.0.{number}" for number in range(2, 10)}


def serve(channel: socket.socket) -> None:
    """Print the process; a client's word makes it die, or report that it is idle."""
    taken = 0
    while True:
        said, descriptors, _, _ = socket.recv_fds(channel, 16, 1)
        if not said:
            return
        taken += 1
        with socket.socket(fileno=descriptors[0]) as connection:
            connection.sendall(str(os.getpid()).encode())
            word = connection.recv(16)
        if word == b"die":
            os._exit(3)
        if word == b"idle":
            channel.send(str(taken).encode())


class Gate:
    """A door on loopback, whose sessions are 127.0.0.2 to 127.0.0.9."""

    def __init__(self, processes: int = 4) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._place = self._listener.getsockname()
        self.door = ConnectionDoor(self._listener, lambda peer: peer in SESSIONS, serve, processes)

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self.door.close()
        self._listener.close()
        self.until(lambda: not self.door._pids)

    def until(self, look: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not look():
            assert time.monotonic() < deadline
            self.door.turn(0.01)

    def call(self, peer: int, word: bytes = b"") -> int:
        """Return the process that serves a caller, which then gets a word."""
        with socket.create_connection(self._place, PATIENCE, source_address=(f"127.0.0.{peer}", 0)) as one:
            one.settimeout(0.01)
            found = [b""]

            def answered() -> bool:
                with suppress(TimeoutError):
                    found[0] = one.recv(32)
                return found[0] != b""

            self.until(answered)
            one.settimeout(PATIENCE)
            one.sendall(word or b"bye")
            assert one.recv(1) == b""
        return int(found[0])


def test_each_session_has_a_process() -> None:
    """For all its calls; callers that are not sessions share one."""
    with Gate() as gate:
        first = [gate.call(2) for _ in range(3)]
        second = [gate.call(3) for _ in range(2)]
        strangers = [gate.call(peer) for peer in (1, 10, 11)]
        assert len({*first, *second, *strangers}) == 3
        assert len(set(strangers)) == 1
        assert os.getpid() not in {*first, *second, *strangers}


def test_a_process_that_died_is_replaced() -> None:
    """For its own session; another's continues."""
    with Gate() as gate:
        one, other = gate.call(2), gate.call(3)
        assert gate.call(2, b"die") == one
        gate.until(lambda: len(gate.door._pids) == 1)
        assert gate.call(2) != one
        assert gate.call(3) == other


def test_a_process_without_connections_ends() -> None:
    """Once it reports that, and has not been sent a new one by then."""
    with Gate() as gate:
        one = gate.call(2, b"idle")
        gate.until(lambda: not gate.door._pids)
        assert gate.call(2) != one


def test_sessions_beyond_the_limit_share_a_process() -> None:
    """They are served, and sessions with their own process keep it."""
    with Gate(processes=2) as gate:
        own = [gate.call(2), gate.call(3)]
        shared = [gate.call(peer) for peer in (4, 5, 1)]
        assert len({*own, *shared}) == 3
        assert len(set(shared)) == 1
        assert [gate.call(2), gate.call(3)] == own
