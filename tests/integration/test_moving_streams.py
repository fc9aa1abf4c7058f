"""Connections whose bytes still move while they are captured: the kernel continues when programs are frozen.

Within a session a slow path keeps them moving for as long as a capture takes; to outside the other end does.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests import inner_rules

from holdfast.engine import networks
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

pytestmark = pytest.mark.thorough

WITHIN = ("tcp", "tcp6", "tcp-mapped", "tcp-own")
CAPTURES = 3
# What is too fast is lost, and sent again. Segments of loopback are large: some megabytes in a second.
SLOW = "meta iif 1 meta l4proto tcp limit rate over 400/second burst 5 packets drop"


def test_moving_streams_within_a_session_are_captured(hf: Holdfast, witnesses: Any) -> None:
    session = hf.new("talking")
    witnesses.start(hf, session, *WITHIN)
    inner_rules.add(session, SLOW)
    for number in range(CAPTURES):
        copy = session.snapshot().restore(f"copy-{number}")
        assert witnesses.wrong(copy, 20) == {}
        copy.remove()
    assert witnesses.wrong(session) == {}


class Steady:
    """A server that takes and gives bytes at a pace of its own, to every connection in parallel."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("0.0.0.0", 0))
        self.port: int = self.listener.getsockname()[1]
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def close(self) -> None:
        for each in (self.listener, *self._connections):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in (self.listener, *self._connections):
            each.close()

    def _start(self, target: Callable[..., None], *arguments: socket.socket) -> None:
        thread = threading.Thread(target=target, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self._connections.append(connection)
                self._start(self._take, connection)
                self._start(self._give, connection)

    def _take(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while connection.recv(20_000):
                time.sleep(0.0005)

    def _give(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(bytes(20_000))
                time.sleep(0.0005)


@pytest.fixture
def steady() -> Iterator[Steady]:
    made = Steady()
    yield made
    made.close()


BOTH_WAYS = """
import socket, threading
moved = [0, 0]
def send(connection):
    while True:
        moved[0] += connection.send(bytes(1 << 16))
def receive(connection):
    while True:
        moved[1] += len(connection.recv(1 << 16))
for _ in range(4):
    connection = socket.create_connection((HOST, PORT))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
    for target in (send, receive):
        threading.Thread(target=target, args=(connection,), daemon=True).start()
"""


def moved(session: Session) -> list[int]:
    """Return the bytes sent and received until now."""
    return [int(word) for word in session.cell("print(*moved)").stdout.split()]


def test_outside_traffic_does_not_prevent_a_capture(hf: Holdfast, steady: Steady) -> None:
    network = hf.engine.client.api.inspect_network(networks.ensure(hf.engine))
    host = str(network["IPAM"]["Config"][0]["Gateway"])
    session = hf.new("reaching", allow=[f"{host}:{steady.port}"])
    begun = session.cell(BOTH_WAYS.replace("HOST", repr(host)).replace("PORT", str(steady.port)))
    assert begun.status == "ok", begun.error
    for _ in range(CAPTURES):
        before = moved(session)
        session.snapshot()
        deadline = time.monotonic() + 60
        while not all(map(int.__lt__, before, moved(session))):  # a busy machine may take a while
            assert time.monotonic() < deadline
            time.sleep(0.1)
