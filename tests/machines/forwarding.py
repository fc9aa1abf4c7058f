"""Ports of this machine that lead elsewhere: to the engine's socket, or through an HTTP proxy."""

from __future__ import annotations

import selectors
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.machines.ordinary_user import SOCKET

Opening = Callable[[socket.socket], socket.socket | None]


class Proxy:
    """An HTTP proxy that leads every name to one port of 127.0.0.1; `asked` has what it was asked for."""

    def __init__(self, port: int, *, refusing: bool = False) -> None:
        self._port, self._refusing = port, refusing
        self.asked: list[str] = []

    def __call__(self, client: socket.socket) -> socket.socket | None:
        """Answer CONNECT, and return the connection to the target."""
        head = b""
        while b"\r\n\r\n" not in head:
            if not (piece := client.recv(4096)):
                return None
            head += piece
        method, target, _ = head.decode().split(" ", 2)
        self.asked.append(target)
        if self._refusing or method != "CONNECT":
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return None
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        return socket.create_connection(("127.0.0.1", self._port))


def to_engine(_client: socket.socket) -> socket.socket:
    """Return a connection to the engine's socket."""
    engine = socket.socket(socket.AF_UNIX)
    engine.connect(str(SOCKET))
    return engine


@contextmanager
def listening(opening: Opening, host: str = "127.0.0.1") -> Iterator[int]:
    """Yield a port of this machine whose connections are passed on as `opening` opens them."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                other = opening(self.request)
                if other is not None:
                    with other:
                        _pass(self.request, other)

    class Server(socketserver.ThreadingTCPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads = True

    with Server((host, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()


def _pass(one: socket.socket, other: socket.socket) -> None:
    """Pass bytes until both sides have ended."""
    peers = {one: other, other: one}
    with selectors.DefaultSelector() as waiting:
        for each in peers:
            waiting.register(each, selectors.EVENT_READ)
        while waiting.get_map():
            for key, _ in waiting.select():
                source = one if key.fileobj is one else other
                if piece := source.recv(1 << 16):
                    peers[source].sendall(piece)
                else:
                    waiting.unregister(source)
                    with suppress(OSError):
                        peers[source].shutdown(socket.SHUT_WR)
