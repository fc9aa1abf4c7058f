"""A door from one network to an address in another, and a place to break connections at.

Passes bytes on between whoever connects and the target, counts them, and can be told to cut a connection
after so many bytes. It may listen in the network of a process, which then reaches nothing else through it.
"""

from __future__ import annotations

import ctypes
import os
import select
import socket
import threading
from contextlib import suppress
from types import TracebackType

_CLONE_NEWNET = 0x40000000
_PIECE = 1 << 18
_TICK = 0.2


class Relay:
    """Listens on a port of 127.0.0.1, and passes each connection on to `target`, a port of 127.0.0.1 here.

    `up` and `down` count what clients sent and got.
    """

    def __init__(self, target: int, *, port: int = 0, network_of: int | None = None) -> None:
        self.target = target
        self.up = self.down = self.connections = 0
        self._budget: dict[str, int | None] = {"up": None, "down": None}
        self._cut_once = threading.Event()
        self._closing = False
        self._threads: list[threading.Thread] = []
        self._listener = _listen(port, network_of)
        self.port = int(self._listener.getsockname()[1])
        self._spawn(self._accept)

    @property
    def address(self) -> str:
        """Host and port, as they stand in a reference."""
        return f"127.0.0.1:{self.port}"

    def cut_after(self, *, up: int | None = None, down: int | None = None) -> None:
        """Reset the connection over which the so-manieth byte from now on goes; those after it are whole."""
        self._cut_once.clear()
        self._budget = {"up": up, "down": down}

    def wait_cut(self, patience: float = 60.0) -> None:
        """Wait until it has been cut."""
        assert self._cut_once.wait(patience), "no connection came to the byte at which it was to be cut"

    def close(self) -> None:
        """Cut what there is, and listen no more."""
        self._closing = True
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Relay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _spawn(self, run: object, *arguments: object) -> None:
        assert callable(run)
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closing:
            try:
                ready = select.select([self._listener], [], [], _TICK)[0]
                if not ready:
                    continue
                client, _ = self._listener.accept()
            except (OSError, ValueError):  # closed
                return
            self.connections += 1
            self._spawn(self._pass, client)

    def _pass(self, client: socket.socket) -> None:
        with client:
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            with server, suppress(OSError):
                self._both_ways(client, server)

    def _both_ways(self, client: socket.socket, server: socket.socket) -> None:
        others = {client: (server, "up"), server: (client, "down")}
        while not self._closing and others:
            for ready in select.select(list(others), [], [], _TICK)[0]:
                other, direction = others[ready]
                piece = ready.recv(_PIECE)
                if not piece:
                    other.shutdown(socket.SHUT_WR)
                    del others[ready]
                    continue
                kept, cut = self._count(direction, len(piece))
                other.sendall(piece[:kept])
                if cut:
                    # No lingering: the other side is told at once, by a reset.
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    self._cut_once.set()
                    return

    def _count(self, direction: str, size: int) -> tuple[int, bool]:
        budget = self._budget[direction]
        kept = size if budget is None else min(size, budget)
        cut = budget is not None and size >= budget
        if budget is not None:
            self._budget[direction] = None if cut else budget - size
        if direction == "up":
            self.up += kept
        else:
            self.down += kept
        return kept, cut


def _listen(port: int, network_of: int | None) -> socket.socket:
    """A listening socket in the network of a process, where it stays, whoever uses it."""
    made: list[socket.socket | OSError] = []

    def listen() -> None:
        try:
            if network_of is not None:
                _enter_network(network_of)
            made.append(socket.create_server(("127.0.0.1", port)))
        except OSError as error:
            made.append(error)

    # Namespaces belong to threads: this one is gone afterwards.
    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise made[0]
    return made[0]


def _enter_network(pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        if libc.setns(namespace, _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "cannot enter the network")
    finally:
        os.close(namespace)
