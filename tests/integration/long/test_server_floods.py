"""The server under ten thousand clients: its memory is bounded, and others are answered during that time.

Prints the figures of docs/server.md. The suite has the same with small numbers: tests/runtime/serve,
tests/runtime/http_doors and tests/integration/test_serve_strangers.py.
"""

from __future__ import annotations

import base64
import json
import os
import resource
import socket
import statistics
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import httpx
import pytest
from tests.integration.conftest import Cli
from tests.integration.served import Served, serving

from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.runtime.api.session import Session

pytestmark = pytest.mark.timeout(900)

MANY = 10_000
MIB = 1 << 20
Tell = Callable[[str], None]


@pytest.fixture(scope="module", autouse=True)
def descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[1], 4 * MANY), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def server(shared: Session, make_cli: Callable[[Home], Cli], shared_home: Home) -> Iterator[Served]:
    with serving(make_cli(shared_home), shared_home) as found:
        assert found.get("/health")["status"] == "ok"
        yield found


def request(server: Served, line: str, *more: str) -> bytes:
    head = [f"{line} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {server.token}", *more]
    return "\r\n".join([*head, "", ""]).encode()


def connected(server: Served) -> socket.socket:
    made = socket.socket()
    made.settimeout(60)
    made.connect(("127.0.0.1", server.port))
    return made


def with_token(server: Served) -> socket.socket:
    """A connection that has shown the token, between two requests."""
    made = connected(server)
    made.sendall(request(server, "GET /health"))
    assert made.recv(4096).startswith(b"HTTP/1.1 200 ")
    return made


def websocket(server: Served) -> socket.socket:
    """A silent WebSocket."""
    made = connected(server)
    key = base64.b64encode(os.urandom(16)).decode()
    upgrade = ("Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {key}")
    made.sendall(request(server, "GET /v1/channels", *upgrade, "Sec-WebSocket-Version: 13"))
    assert made.recv(4096).startswith(b"HTTP/1.1 101 ")
    return made


def silent(server: Served) -> socket.socket:
    """A connection of a stranger, with half a head."""
    made = connected(server)
    made.sendall(b"GET /health HTTP/1.1\r\nX: ")
    return made


def body(server: Served) -> socket.socket:
    """A request with the token whose body stops in the middle."""
    made = connected(server)
    made.sendall(request(server, "POST /v1/sessions/shared/exec", "Content-Length: 100000") + b" " * 50_000)
    return made


def answers(server: Served, count: int = 50) -> list[float]:
    """Return how long `/health` takes, in seconds; each must be answered."""
    found = []
    with httpx.Client(base_url=server.url, headers=server.headers, trust_env=False, timeout=60) as client:
        for _ in range(count):
            began = time.perf_counter()
            assert client.get("/health").status_code == 200
            found.append(time.perf_counter() - began)
    return sorted(found)


def shown(found: list[float]) -> str:
    return f"{statistics.median(found) * 1000:.1f} ms, worst of {len(found)} {found[-1] * 1000:.0f} ms"


@pytest.mark.parametrize(
    ("make", "most"),
    [(silent, 96 * MIB), (with_token, 256 * MIB), (websocket, 768 * MIB), (body, 1024 * MIB)],
)
def test_ten_thousand_clients_have_bounded_room(
    server: Served, tell: Tell, make: Callable[[Served], socket.socket], most: int
) -> None:
    """Clients with the token can stay; of strangers the oldest are closed."""
    before, quiet = server.resident(), answers(server)
    with ExitStack() as held:
        for number in range(MANY):
            held.enter_context(make(server))
            if number % 2000 == 1999:
                answers(server, 5)
        grown, busy = server.resident() - before, answers(server)
    tell(f"{MANY} × {make.__name__}: {grown / MIB:.0f} MiB; /health {shown(quiet)}; then {shown(busy)}")
    assert grown < most
    assert server.get("/v1/sessions/shared")["state"] == "running"


def frames(opcode: int, data: bytes, count: int) -> bytes:
    """Return frames of a client; a mask of zeros leaves the data as they are."""
    assert len(data) < 126
    return (struct.pack("!BB", 0x80 | opcode, 0x80 | len(data)) + bytes(4) + data) * count


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("pings", frames(9, b"p" * 100, 2000)),
        ("messages without an answer", frames(1, b'{"close": 9}', 5000)),
        ("messages with an error", frames(1, b"garbage", 5000)),
    ],
)
def test_floods_of_frames_leave_room_and_time_for_others(
    server: Served, tell: Tell, name: str, data: bytes
) -> None:
    """Twenty connections send as much as is taken, and read nothing."""
    before, quiet, taken = server.resident(), answers(server), 0
    with ExitStack() as held:
        flooding = [held.enter_context(websocket(server)) for _ in range(20)]
        for each in flooding:
            each.setblocking(False)
        busy = []
        for _ in range(20):
            for each in flooding:
                with suppress(BlockingIOError):
                    taken += each.send(data)
            busy += answers(server, 2)
        grown = server.resident() - before
    tell(
        f"20 floods of {name}, {taken / MIB:.0f} MiB: {grown / MIB:.0f} MiB; "
        f"/health {shown(quiet)}; then {shown(sorted(busy))}"
    )
    assert grown < 256 * MIB


def test_waiting_commands_do_not_slow_others(server: Served, shared: Session, tell: Tell) -> None:
    """The highest allowed number wait, on two WebSockets; one more is refused."""
    left = shared.exec("sleep 600", patience=0.1)
    before, quiet = server.resident(), answers(server, 200)
    with server.channels() as one, server.channels() as other:
        for number in range(1, 257):
            for client in (one, other):
                call = {"open": number, "call": "join", "session": "shared"}
                client.send(json.dumps(call | {"args": {"command_id": left.command_id}}))
        assert polling.until(lambda: server.metric('holdfast_calls{kind="waiting"}') == 512, 120)
        grown, busy = server.resident() - before, answers(server, 200)
        refused = server.call("GET", f"/v1/sessions/shared/commands/{left.command_id}", status=503)
        assert refused["error"]["code"] == "too_many_calls"
    tell(f"512 calls that wait: {grown / MIB:.0f} MiB; /health {shown(quiet)}; then {shown(busy)}")
    shared.interrupt()
    assert grown < 256 * MIB
