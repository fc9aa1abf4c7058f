"""Signals while the blocking client sends a request, or waits for its answer, without limit."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.runtime.client.late_signals import interrupted_elsewhere
from websockets.exceptions import ConnectionClosed, ConnectionClosedError
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve

from holdfast.errors import HoldfastError, OutcomeUnknown, ServerUnavailable
from holdfast.runtime.client.aio.async_transport import AsyncTransport
from holdfast.runtime.client.blocking import remote_transport
from holdfast.runtime.client.blocking.remote_connection import next_message
from holdfast.runtime.client.blocking.remote_transport import RemoteTransport
from holdfast.runtime.client.channel_calls import WatchCall
from holdfast.runtime.client.client_address import ClientAddress
from holdfast.runtime.client.http_call import HttpCall
from holdfast.runtime.operations.step import Step

ANSWER = b'HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n{"well": "yes"}'
LARGE = b"x" * (32 << 20)
"""More than connections keep on their way."""
CALL = HttpCall("GET", "/v1/anything")
Watcher = Callable[[Step | None], None] | None


@contextmanager
def answering(serve: Callable[[socket.socket], object], folder: Path | None = None) -> Iterator[str]:
    """Yield the address of a server that does this with its one connection; with TLS if it has a folder."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            accepted, _ = listening.accept()
            if folder is not None:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
                accepted = context.wrap_socket(accepted, server_side=True)
            with accepted:
                serve(accepted)

        threading.Thread(target=run, daemon=True).start()
        yield f"http{'s' if folder else ''}://127.0.0.1:{listening.getsockname()[1]}"


@contextmanager
def transport(url: str) -> Iterator[RemoteTransport]:
    made = RemoteTransport(ClientAddress(url, None, "token"), {})
    try:
        yield made
    finally:
        made.close()


class SilentServer:
    """Does nothing with a connection until it is over, or for long; its end would let any wait return."""

    def __init__(self) -> None:
        self.over, self.gave_up = threading.Event(), False

    def __call__(self, _: socket.socket) -> None:
        self.gave_up = not self.over.wait(30)


@pytest.mark.parametrize("body", [b"", LARGE], ids=["no answer", "nobody reads"])
def test_a_signal_is_heeded_while_a_server_is_silent(body: bytes) -> None:
    silent = SilentServer()
    with answering(silent) as url, transport(url) as made, interrupted_elsewhere():
        with pytest.raises(KeyboardInterrupt):
            made.send(CALL, body)
        assert not silent.gave_up
        silent.over.set()


def test_a_late_answer_is_received() -> None:
    def late(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        time.sleep(1.2)
        connection.sendall(ANSWER[:30])
        time.sleep(1.2)
        connection.sendall(ANSWER[30:])

    with answering(late) as url, transport(url) as made:
        assert made.ask(CALL) == {"well": "yes"}


def test_late_reads_are_complete() -> None:
    arrived = []

    def slow(connection: socket.socket) -> None:
        time.sleep(2.2)
        size = 0
        while size < len(LARGE):
            size += len(connection.recv(1 << 20))
        arrived.append(size)
        connection.sendall(ANSWER)

    with answering(slow) as url, transport(url) as made:
        assert made.send(HttpCall("PUT", "/v1/file"), LARGE) == {"well": "yes"}
    assert arrived[0] >= len(LARGE)


def test_a_late_answer_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    openssl = shutil.which("openssl")
    assert openssl
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test"
    words += " -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out certificate.pem"
    subprocess.run([openssl, *words.split()], cwd=tmp_path, check=True, capture_output=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))

    def late(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        time.sleep(1.2)
        connection.sendall(ANSWER)

    with answering(late, tmp_path) as url, transport(url) as made:
        assert made.ask(CALL) == {"well": "yes"}


@pytest.mark.parametrize("said", [b"", ANSWER[:-5], b"anything else\r\n\r\n"])
def test_a_broken_answer_is_an_unavailable_server(said: bytes) -> None:
    def broken(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(said)

    with (
        answering(broken) as url,
        transport(url) as made,
        pytest.raises(ServerUnavailable, match="cannot reach"),
    ):
        made.ask(CALL)


def test_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    with transport(url) as made, pytest.raises(ServerUnavailable, match="refused"):
        made.ask(CALL)


@contextmanager
def silent(seconds: float, message: str = "") -> Iterator[str]:
    """Yield the address of a server that is silent for that time, then sends its message, and hangs up."""
    over = threading.Event()

    def answer(connection: ServerConnection) -> None:
        if not over.wait(seconds):
            connection.send(message)

    with serve(answer, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        over.set()


def test_a_signal_to_another_thread_is_heeded() -> None:
    with silent(20) as address, connect(address, close_timeout=1) as connection:
        with interrupted_elsewhere(), pytest.raises(KeyboardInterrupt):
            next_message(connection)
        with pytest.raises(TimeoutError):  # it is silent still: not its end has let the wait return
            connection.recv(0)


def test_late_data_is_received() -> None:
    with silent(2.2, "late") as address, connect(address) as connection:
        assert next_message(connection) == "late"
        with pytest.raises(ConnectionClosed):
            next_message(connection)


def blocking(url: str, call: HttpCall, watcher: Watcher) -> None:
    made = RemoteTransport(ClientAddress(url, None, "token"), {}, watcher)
    try:
        made.ask(call)
    finally:
        made.close()


def awaited(url: str, call: HttpCall, watcher: Watcher) -> None:
    async def run() -> None:
        made = AsyncTransport(ClientAddress(url, None, "token"), {}, watcher)
        try:
            await made.ask(call)
        finally:
            await made.close()

    asyncio.run(run())


STEPS = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
STEPS += b'1b\r\n{"step": {"text": "work"}}\n\r\n'
BODY = {"name": "work"}


@pytest.mark.parametrize("ask", [blocking, awaited])
@pytest.mark.parametrize("watcher", [None, lambda _step: None])
@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{", STEPS])
def test_the_outcome_of_a_request_with_a_lost_connection_is_unknown(
    ask: Callable[[str, HttpCall, Watcher], None], watcher: Watcher, answer: bytes
) -> None:
    """The server reads the whole request, begins to answer or not, and closes."""
    got: list[bytes] = []

    def cut(accepted: socket.socket) -> None:
        while not b"".join(got).endswith(b'"work"}'):
            got.append(accepted.recv(1 << 16))
        accepted.sendall(answer)

    with answering(cut) as url, pytest.raises(OutcomeUnknown, match="cannot tell whether it was done"):
        ask(url, HttpCall("POST", "/v1/sessions", body=BODY), watcher)
    assert b"POST /v1/sessions" in b"".join(got)


@pytest.mark.parametrize("ask", [blocking, awaited])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_request_that_can_be_sent_twice_only_lacks_its_server(
    ask: Callable[[str, HttpCall, Watcher], None], method: str
) -> None:
    with answering(lambda accepted: accepted.recv(1 << 16)) as url, pytest.raises(ServerUnavailable):
        ask(url, HttpCall(method, "/v1/sessions/work"), None)


@pytest.mark.parametrize("ask", [blocking, awaited])
def test_a_request_that_never_left_was_not_done(ask: Callable[[str, HttpCall, Watcher], None]) -> None:
    """Nothing listens there."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(HoldfastError) as refused:
        ask(f"http://127.0.0.1:{port}", HttpCall("POST", "/v1/sessions", body=BODY), None)
    assert isinstance(refused.value, ServerUnavailable)


def test_calls_behind_a_proxy_go_to_the_node_of_their_session() -> None:
    """A node that lacks the session says so; from then on each connection names its session, and is used for
    no other.
    """
    paths: list[str] = []

    def node(connection: ServerConnection) -> None:
        assert connection.request is not None
        paths.append(connection.request.path)
        of = connection.request.path.partition("?session=")[2]
        for message in connection:
            if json.loads(message)["session"] == of:
                told: dict[str, object] = {"result": {"ended": True, "left": False}}
            else:
                told = {"error": {"code": "session_elsewhere", "message": "cannot answer here", "hint": ""}}
            connection.send(json.dumps({"channel": 1, **told}))

    with serve(node, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with transport(f"http://127.0.0.1:{server.socket.getsockname()[1]}") as made:
            for session in ("work", "other", "work"):
                made.result(WatchCall(session, "watch", {"path": "/"}))
        server.shutdown()
    asked = [path.partition("?session=")[2] for path in paths]
    assert asked == ["", "work", "other"]


def test_a_connection_that_is_lost_while_it_opens_is_an_unavailable_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A proxy closes the connections of a node that it has just lost."""

    def lost(*_: object, **__: object) -> None:
        raise ConnectionClosedError(None, None)

    monkeypatch.setattr(remote_transport, "connect", lost)
    with transport("http://127.0.0.1:9") as made, pytest.raises(ServerUnavailable):
        made.result(WatchCall("work", "watch", {"path": "/"}))
