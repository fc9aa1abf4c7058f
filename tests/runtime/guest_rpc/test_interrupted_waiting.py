"""Signals while a client waits without limit."""

from __future__ import annotations

import signal
import socket
import threading
import time

import pytest

from holdfast.errors import GuestDisconnected
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


def test_what_comes_late_is_received() -> None:
    """The wait goes on after each look."""
    client, server = socket.socketpair()
    timer = threading.Timer(2.2, server.close)
    timer.start()
    with client, pytest.raises(GuestDisconnected, match="closed the connection"):
        Connection(client).receive()
    timer.join()
