"""A dishonest host, and a silent resolver: everything a session can ask.

Both remember what they did, so that a test can say that its attack took place.
"""

from __future__ import annotations

import itertools
import secrets
import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress

_LINE = b"X-Filler: " + b"a" * 4000 + b"\r\n"
_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
_SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
_SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_HEADERS = b"\x00\x00\x01\x01\x00\x00\x00\x00\x01\x88"
_CONTINUATION = b"\x00\x40\x00\x09\x00\x00\x00\x00\x01" + b"\x00" * 0x4000

ENDLESS = {
    "head": (b"HTTP/1.1 200 OK\r\n", _LINE),
    "status": (b"HTTP/1.1 200 ", b"a" * 4096),
    "chunk-size": (_CHUNKED + b"1;", b"a" * 4096),
    "trailers": (_CHUNKED + b"1\r\nx\r\n0\r\n", _LINE),
    "informational": (b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 10),
    "http2": (_SETTINGS + _HEADERS, _CONTINUATION),
}
"""What begins an answer, and what then follows for ever, by the path it is asked for at."""
SOUND = {
    "hint": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "trailer": _CHUNKED + b"2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n",
}
"""Unusual answers that are not hostile."""


class HostileHost:
    """Plain HTTP at one address. `/websocket` changes the protocol, then sends a message without end.

    At `early` it speaks first, to every caller.
    """

    def __init__(self, address: str) -> None:
        self.sent: dict[str, int] = {}
        self.ended: dict[str, threading.Event] = {}
        self._stopped = False
        host = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with suppress(OSError):
                    host._serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            request_queue_size = 256

        self._server = Server((address, 0), Handler)
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._speaks = socket.create_server((address, 0))
        self.early: int = self._speaks.getsockname()[1]
        self.spoke = 0
        threading.Thread(target=self._speak, daemon=True).start()

    def _speak(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._speaks.accept()
                with connection, suppress(OSError):
                    connection.sendall(b"SSH-2.0-OpenSSH_9.9\r\n")
                    self.spoke += 1
                    connection.settimeout(20)
                    connection.recv(1)

    def _serve(self, connection: socket.socket) -> None:
        asked = b""
        while b"\r\n\r\n" not in asked:
            if not (piece := connection.recv(65536)):
                return
            asked += piece
        what = asked.split()[1].decode().rpartition("/")[2]
        if what in SOUND:
            connection.sendall(SOUND[what])
            return
        begin, more = ENDLESS.get(what, (_SWITCHED + b"\x01\x7f" + b"\xff" * 8, b"w" * 65536))
        ended = self.ended.setdefault(what, threading.Event())
        connection.settimeout(1)
        try:
            self._send(connection, what, begin)
            while not self._stopped:
                self._send(connection, what, more)
        except OSError:
            ended.set()

    def _send(self, connection: socket.socket, what: str, data: bytes) -> None:
        while data and not self._stopped:
            with suppress(TimeoutError):
                count = connection.send(data)
                data = data[count:]
                self.sent[what] = self.sent.get(what, 0) + count

    def close(self) -> None:
        """End every answer."""
        self._stopped = True
        self._speaks.close()
        self._server.shutdown()
        self._server.server_close()


class Names:
    """A resolver at an address of loopback, port 53, that knows some names and says so of `absent`.

    To all other questions it does not answer.
    """

    def __init__(self, known: dict[str, str], absent: str) -> None:
        self._known, self._absent = known, absent
        self.asked: list[str] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for _ in itertools.repeat(None, 50):
            self.address = "127." + ".".join(str(1 + secrets.randbelow(250)) for _ in range(3))
            with suppress(OSError):
                self._socket.bind((self.address, 53))
                break
        else:
            raise OSError("something has port 53 of all addresses of loopback")
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        with suppress(OSError):
            while True:
                query, client = self._socket.recvfrom(4096)
                name = ".".join(label.decode() for label in _labels(query)).lower()
                self.asked.append(name)
                question = query[12 : 12 + sum(len(label) + 1 for label in _labels(query)) + 5]
                kind = struct.unpack("!H", question[-4:-2])[0]
                head, answer = query[:2], b""
                if name in self._known and kind == 1:
                    packed = socket.inet_aton(self._known[name])
                    answer = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + packed
                elif name not in self._known and name != self._absent:
                    continue
                flags = 0x8183 if name == self._absent else 0x8180
                counts = struct.pack("!HHHHH", flags, 1, 1 if answer else 0, 0, 0)
                self._socket.sendto(head + counts + question + answer, client)

    def close(self) -> None:
        """Stop, as far as it matters: it is silent anyway."""
        self._socket.close()


def _labels(query: bytes) -> Iterator[bytes]:
    at = 12
    while query[at]:
        yield query[at + 1 : at + 1 + query[at]]
        at += 1 + query[at]
