"""Servers for ports of a session: one that behaves, and ones that do not. Its argument is the first port."""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
import sys
import threading

import tornado.web
import tornado.websocket

GARBAGE, ENDLESS_HEAD, SILENT, CUT, FLOOD = range(1, 6)
"""Behind the first port, by number: what each does with a connection."""
SIZE = 32 << 20


@tornado.web.stream_request_body
class Any(tornado.web.RequestHandler):
    """Tells what it was asked; `/large` is a large body, `/slow` one that comes in two pieces."""

    def prepare(self) -> None:
        self.digest, self.size = hashlib.sha256(), 0

    def data_received(self, chunk: bytes) -> None:
        self.digest.update(chunk)
        self.size += len(chunk)

    async def get(self) -> None:
        if self.request.path == "/large":
            for _ in range(SIZE >> 20):
                self.write(b"x" * (1 << 20))
                await self.flush()
        elif self.request.path == "/slow":
            self.write("first\n")
            await self.flush()
            await asyncio.sleep(3600)
        else:
            self.set_header("Set-Cookie", "a=1; Domain=localhost")
            self.write(json.dumps(self.told()))

    post = put = delete = get

    def told(self) -> dict[str, object]:
        headers = {name.lower(): value for name, value in self.request.headers.get_all()}
        body = [self.size, self.digest.hexdigest()]
        return {"method": self.request.method, "uri": self.request.uri, "headers": headers, "body": body}


class Echo(tornado.websocket.WebSocketHandler):
    """Sends every message back, and closes at the text `close`."""

    def check_origin(self, origin: str) -> bool:
        return "forbidden" not in origin

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        return subprotocols[0] if subprotocols else None

    def on_message(self, message: str | bytes) -> None:
        if message == "close":
            self.close(4001, "as asked")
        else:
            self.write_message(message, binary=isinstance(message, bytes))


def serve_badly(port: int, kind: int) -> None:
    """Accept connections, and do with each what its kind is."""
    with socket.create_server(("127.0.0.1", port)) as opened:
        while True:
            accepted, _ = opened.accept()
            threading.Thread(target=misbehave, args=(accepted, kind), daemon=True).start()


def misbehave(accepted: socket.socket, kind: int) -> None:
    """Treat one connection."""
    with accepted:
        accepted.recv(1 << 16)
        try:
            if kind == GARBAGE:
                accepted.sendall(b"\0\xff" * 10_000)
            elif kind == CUT:
                accepted.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
            else:
                start = {ENDLESS_HEAD: b"HTTP/1.1 200 OK\r\n", FLOOD: b"HTTP/1.1 200 OK\r\n\r\n"}.get(
                    kind, b""
                )
                accepted.sendall(start)
                while kind != SILENT:
                    accepted.sendall(b"X: y\r\n" * 10_000)
                while accepted.recv(1 << 16):
                    pass
        except OSError:
            pass


async def main() -> None:
    """Serve until the session ends."""
    first = int(sys.argv[1])
    for kind in range(GARBAGE, FLOOD + 1):
        threading.Thread(target=serve_badly, args=(first + kind, kind), daemon=True).start()
    tornado.web.Application([("/echo", Echo), (".*", Any)]).listen(first, "127.0.0.1", max_body_size=1 << 40)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
