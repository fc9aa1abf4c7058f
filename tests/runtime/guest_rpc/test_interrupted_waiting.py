"""Signals while a client waits without limit."""

from __future__ import annotations

import signal
import socket
import threading
import time

import pytest

from holdfast.errors import GuestDisconnected
from holdfast.runtime.guest.wire import protocol
from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc.guest_client import Connection


def test_a_signal_that_interrupts_no_system_call_is_heeded() -> None:
    """It came just before the call, or to another thread; Python runs its handler in the main thread."""
    client, server = socket.socketpair()

    def elsewhere() -> None:
        time.sleep(0.3)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        time.sleep(20)
        server.close()  # ends a wait that did not heed it

    def heard(number: int, _frame: object) -> None:
        raise KeyboardInterrupt(number)

    before = signal.signal(signal.SIGUSR1, heard)
    thread = threading.Thread(target=elsewhere, daemon=True)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt), client:
            Connection(client).receive()
    finally:
        signal.signal(signal.SIGUSR1, before)
        server.close()


def test_late_data_is_received() -> None:
    """The wait continues after each look."""
    client, server = socket.socketpair()
    timer = threading.Timer(2.2, server.close)
    timer.start()
    with client, pytest.raises(GuestDisconnected, match="closed the connection"):
        Connection(client).receive()
    timer.join()


def test_a_claimed_session_stops_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless a frame has begun: its rest is awaited first, and none of it is lost."""
    monkeypatch.setattr("holdfast.runtime.guest_rpc.guest_client.LOOK_UP", 0.01)
    frame = protocol.encode(Frame({"v": protocol.VERSION, "event": "entry"}, b"payload"))
    asked = threading.Event()

    def is_wanted() -> bool:
        asked.set()
        return True

    client, server = socket.socketpair()
    with client, server, Connection(client) as connection:
        connection.is_wanted_elsewhere = is_wanted
        with pytest.raises(GuestDisconnected) as ended:
            connection.receive()
        assert isinstance(ended.value.__cause__, TimeoutError)
        server.sendall(frame[:-3])
        assert connection.receive() == []
        rest = threading.Timer(0.2, server.sendall, (frame[-3:],))
        rest.start()
        assert [each.payload for each in connection.receive()] == [b"payload"]
        rest.join()
    assert asked.is_set()
