"""Connections to ports of a session: bytes both ways, bounded, and nothing left of them in a capture."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.runtime.guest.harness import Connection, Guest, Refused

from holdfast.base import polling
from holdfast.runtime.guest.wire.port_operations import MAX_LINKS

PATIENCE = 60.0
MIB = 1 << 20


@contextmanager
def served(serve: Callable[[socket.socket], None], host: str = "127.0.0.1") -> Iterator[int]:
    """Serve each connection to a port of loopback in a thread; yield the port."""
    with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as opened:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    accepted, _ = opened.accept()
                    accepted.settimeout(PATIENCE)
                    threading.Thread(target=_served, args=(serve, accepted), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield opened.getsockname()[1]
        opened.shutdown(socket.SHUT_RDWR)


def _served(serve: Callable[[socket.socket], None], accepted: socket.socket) -> None:
    with accepted, suppress(OSError):
        serve(accepted)


def echo(accepted: socket.socket) -> None:
    while data := accepted.recv(MIB):
        accepted.sendall(data)


def whole(opened: socket.socket) -> bytes:
    return b"".join(iter(lambda: opened.recv(MIB), b""))


def connections(guest: Guest, port: int) -> int:
    """Return how many of the supervisor's open files are connections to the port (proc(5): /proc/net/tcp)."""
    held = set(guest.open_files())
    rows = Path(f"/proc/{guest.process.pid}/net/tcp").read_text().splitlines()[1:]
    fields = [row.split() for row in rows]
    return sum(row[2].endswith(f":{port:04X}") and f"socket:[{row[9]}]" in held for row in fields)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_bytes_pass_both_ways(guest: Guest, host: str) -> None:
    content = os.urandom(3 * MIB)

    def echo_all(accepted: socket.socket) -> None:
        left = len(content)
        while left:
            data = accepted.recv(MIB)
            accepted.sendall(data)
            left -= len(data)

    with served(echo_all, host) as port, guest.call("port_connect", port=port) as call:
        joined = call.joined()
        sending = threading.Thread(target=joined.sendall, args=(content,))
        sending.start()
        assert whole(joined) == content
        sending.join(PATIENCE)


def test_the_end_of_a_client_ends_the_connection_to_the_server(guest: Guest) -> None:
    """Also of one whose server never ends anything."""
    ended = threading.Event()

    def wait(accepted: socket.socket) -> None:
        with suppress(ConnectionResetError):
            while accepted.recv(MIB):
                pass
        ended.set()
        threading.Event().wait(PATIENCE)

    with served(wait) as port:
        with guest.call("port_connect", port=port) as call:
            call.joined().sendall(b"here")
        assert ended.wait(PATIENCE)


def test_a_server_that_speaks_first_is_heard_from_its_first_byte(guest: Guest) -> None:
    """Its output must not be taken for a frame, however early it comes."""
    said = b"\0\0\0\2\0\0\0\0{}220 ready\r\n"
    with (
        served(lambda accepted: accepted.sendall(said)) as port,
        guest.call("port_connect", port=port) as call,
    ):
        assert whole(call.joined()) == said


def test_a_closed_port_is_reported(guest: Guest) -> None:
    with socket.create_server(("127.0.0.1", 0)) as opened:
        port = opened.getsockname()[1]
    with pytest.raises(Refused, match=f"cannot reach port {port}: ") as refused:
        guest.ask("port_connect", port=port)
    assert refused.value.code == "port_closed"
    for wrong in (0, 65536, "80", None, True, 1.5):
        with pytest.raises(Refused) as refused:
            guest.ask("port_connect", port=wrong)
        assert refused.value.code == "invalid"


def test_a_client_that_does_not_wait_for_the_answer_is_refused(guest: Guest) -> None:
    with served(echo) as port, guest.call("port_connect", port=port) as call:
        call.send("anything")
        heard = call.next()
        if heard is not None and heard.event == "connected":  # its answer was faster
            return
        assert heard is not None
        assert heard.head["code"] == "protocol"


def test_a_server_that_floods_waits_for_its_client(guest: Guest) -> None:
    """A client that does not read costs the supervisor no memory, and other requests are answered."""
    sent = 0

    def flood(accepted: socket.socket) -> None:
        nonlocal sent
        accepted.settimeout(None)
        while True:
            sent += accepted.send(b"x" * MIB)

    with served(flood) as port, guest.call("port_connect", port=port) as call:
        joined = call.joined()
        before = -1
        while sent != before or not sent:
            before = sent
            guest.ask("hello")
            guest.exec("sleep 0.2")
        assert sent < 64 * MIB
        assert len(joined.recv(1000)) == 1000


def test_the_limit_is_exact(guest: Guest) -> None:
    """One more is refused; ended ones make room."""
    calls: list[Connection] = []
    with served(echo) as port:
        for _ in range(MAX_LINKS):
            calls.append(guest.call("port_connect", port=port))
            calls[-1].joined()
        with pytest.raises(Refused, match="there are 128 connections"):
            guest.ask("port_connect", port=port)
        for call in calls:
            call.close()
        for _ in range(2 * MAX_LINKS):
            with polling.while_raising(Refused, lambda: _echoed(guest, port), PATIENCE):
                pass


def _echoed(guest: Guest, port: int) -> Connection:
    call = guest.call("port_connect", port=port)
    joined = call.joined()
    joined.sendall(b"again")
    assert joined.recv(5) == b"again"
    return call


def test_a_capture_finds_no_connection(guest: Guest) -> None:
    """Both ends read an end or a reset immediately; a new connection is possible afterwards."""
    ended = threading.Event()

    def wait(accepted: socket.socket) -> None:
        accepted.sendall(b"hello")
        with suppress(ConnectionResetError):
            assert accepted.recv(1) == b""
        ended.set()

    with served(wait) as port, guest.call("port_connect", port=port) as call:
        joined = call.joined()
        assert joined.recv(5) == b"hello"
        assert connections(guest, port) == 1
        told = guest.prepare()
        assert connections(guest, port) == 0
        assert ended.wait(PATIENCE)
        guest.wake(token=told["token"], event="resumed")
        with suppress(ConnectionResetError):
            assert joined.recv(1) == b""
        with guest.call("port_connect", port=port) as again:
            assert again.joined().recv(5) == b"hello"
