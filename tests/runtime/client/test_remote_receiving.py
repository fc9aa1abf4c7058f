"""Signals while the blocking client waits for a message without limit."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.runtime.client.late_signals import interrupted_elsewhere
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve

from holdfast.runtime.client.blocking.remote_receiving import next_message


@contextmanager
def silent(seconds: float, message: str = "") -> Iterator[str]:
    """Yield the address of a server that says nothing for so long, then its message, and hangs up."""
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


def test_what_comes_late_is_received() -> None:
    with silent(2.2, "late") as address, connect(address) as connection:
        assert next_message(connection) == "late"
        with pytest.raises(ConnectionClosed):
            next_message(connection)
