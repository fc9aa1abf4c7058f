"""Signals while the blocking client waits for a message without limit."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
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
    def heard(number: int, _frame: object) -> None:
        raise KeyboardInterrupt(number)

    def elsewhere() -> None:
        time.sleep(0.3)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, heard)
    try:
        with silent(20) as address, connect(address, close_timeout=1) as connection:
            threading.Thread(target=elsewhere, daemon=True).start()
            with pytest.raises(KeyboardInterrupt):
                next_message(connection)
            with pytest.raises(TimeoutError):  # it is silent still: not its end has let the wait return
                connection.recv(0)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_what_comes_late_is_received() -> None:
    with silent(2.2, "late") as address, connect(address) as connection:
        assert next_message(connection) == "late"
        with pytest.raises(ConnectionClosed):
            next_message(connection)
