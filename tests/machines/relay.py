"""A door from one network to an address in another, and a place to break connections at.

Passes bytes between its clients and the target, counts them, and can be made to cut a connection, or to
hold everything, after a number of bytes. It can listen in the network of a process, which then reaches
nothing else through it.
"""

from __future__ import annotations

import ctypes
import os
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

_CLONE_NEWNET = 0x40000000
_PIECE = 1 << 18
_TICK = 0.2
PATIENCE = 90.0


class Relay:
    """A relay that listens on a port of 127.0.0.1, and passes each connection to `target`, a port of
    `host`.

    `up` and `down` count the bytes that clients sent and got. The target can be in the network of a
    process, `into`.
    """

    def __init__(
        self,
        target: int,
        *,
        port: int = 0,
        network_of: int | None = None,
        into: int | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.target, self._host = target, host
        self._into = into
        self.up = self.down = self.connections = 0
        self._limits: dict[str, int] = {}
        self._word, self._words = b"", 0
        self._hold = self._drop = False
        self._reached, self._released = threading.Event(), threading.Event()
        self._closing = False
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._listener = _listen(port, network_of)
        self.port = int(self._listener.getsockname()[1])
        self._spawn(self._accept)

    @property
    def address(self) -> str:
        """Host and port, as they stand in a reference."""
        return f"127.0.0.1:{self.port}"

    def cut_after(self, *, up: int | None = None, down: int | None = None) -> None:
        """Reset the connection that carries the n-th byte from now; later ones are complete."""
        self._arm(up, down, hold=False)

    def hold_after(self, *, up: int | None = None, down: int | None = None) -> None:
        """Pass nothing more after this many bytes, until `release`."""
        self._arm(up, down, hold=True)

    def hold_at(self, method: bytes, count: int) -> None:
        """Pass nothing more from the n-th request of this method, until `release`."""
        self._arm(None, None, hold=True)
        self._word, self._words = method + b" ", count

    def wait(self) -> None:
        """Wait until the limit is reached."""
        assert self._reached.wait(PATIENCE), "no connection came to where it was to be cut or held"

    def release(self, *, drop: bool = False) -> None:
        """Pass everything again; drop the held data on request."""
        self._limits, self._word, self._hold, self._drop = {}, b"", False, drop
        self._released.set()

    def close(self) -> None:
        """Close all connections, and stop listening."""
        self._closing = True
        self._released.set()
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Relay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _arm(self, up: int | None, down: int | None, *, hold: bool) -> None:
        self._reached.clear()
        self._released.clear()
        self._word, self._hold = b"", hold
        given = {"up": up, "down": down}
        self._limits = {way: limit for way, limit in given.items() if limit is not None}

    def _spawn(self, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closing:
            try:
                if not select.select([self._listener], [], [], _TICK)[0]:
                    continue
                client, _ = self._listener.accept()
            except (OSError, ValueError):  # closed
                return
            self.connections += 1
            self._spawn(self._pass, client)

    def _pass(self, client: socket.socket) -> None:
        with client:
            try:
                if self._into is not None:  # this thread alone, for the one connection
                    _enter_network(self._into)
                server = socket.create_connection((self._host, self.target))
            except OSError:
                return
            with server, suppress(OSError):
                self._both_ways(client, server)

    def _both_ways(self, client: socket.socket, server: socket.socket) -> None:
        others = {client: (server, "up"), server: (client, "down")}
        while not self._closing and others:
            for ready in select.select(list(others), [], [], _TICK)[0]:
                other, way = others[ready]
                piece = ready.recv(_PIECE)
                if not piece:
                    other.shutdown(socket.SHUT_WR)
                    del others[ready]
                    continue
                kept = self._kept(way, piece)
                other.sendall(piece[:kept])
                if kept == len(piece):
                    continue
                if not self._hold:
                    # No lingering: the other side learns at once, by a reset.
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    self._limits = {}
                    self._reached.set()
                    return
                self._reached.set()
                self._released.wait()
                if self._drop:
                    return
                other.sendall(piece[kept:])

    def _kept(self, way: str, piece: bytes) -> int:
        """Return how much of a piece is passed on."""
        with self._lock:
            kept = len(piece)
            if self._word and way == "up" and piece.startswith(self._word):
                self._words -= 1
                kept = kept if self._words > 0 else 0
            if way in self._limits:
                kept = min(kept, max(0, self._limits[way]))
                self._limits[way] -= kept
                # Data that ends exactly at the limit is not passed on whole, so that it is noticed.
                kept -= kept == len(piece) and self._limits[way] == 0
            if way == "up":
                self.up += kept
            else:
                self.down += kept
            return kept


def _listen(port: int, network_of: int | None) -> socket.socket:
    """Return a socket listening in the network of a process, where it stays in use from anywhere."""
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
