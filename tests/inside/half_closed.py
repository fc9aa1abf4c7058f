"""Connections in every state two ends can be in, for each family, within one process and between two.

`python3 half_closed.py FOLDER` makes them and writes FOLDER/ready-0 and so on, one file for each process.
When FOLDER/go appears, every end sends the rest of its data, reads to the end and compares; errors are in
FOLDER/said-0 and so on, as JSON. Nothing is sent before: lost data is lost while all are frozen.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

BEFORE, AFTER = b"before" * 50, b"after" * 50
PATIENCE = 60.0
BUFFER = 32 << 10
"""Bytes. With many copies of full queues, the kernel would otherwise run short of memory for TCP."""
Ends = tuple[socket.socket, socket.socket]


def connect(family: str) -> Ends:
    """Return a client and a server."""
    kind = socket.AF_INET if family == "ipv4" else socket.AF_INET6
    address = {"ipv4": "127.0.0.1", "ipv6": "::1", "mapped": "::"}[family]
    with socket.create_server((address, 0), family=kind, dualstack_ipv6=family == "mapped") as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        port = listener.getsockname()[1]
        client = socket.create_connection(("127.0.0.1" if family == "mapped" else address, port))
        ends = client, listener.accept()[0]
        for end in ends:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        return ends


def fill(end: socket.socket) -> bytes:
    """Write until nothing more fits; return the data written."""
    written, piece = b"", bytes(range(256)) * 256
    end.setblocking(False)
    while True:
        try:
            written += piece[: end.send(piece)]
        except BlockingIOError:
            time.sleep(0.01)
            try:
                written += piece[: end.send(piece)]
            except BlockingIOError:
                end.setblocking(True)
                return written


class End:
    """One end: its written data, whether it has sent all, the data it is to read."""

    def __init__(self, name: str, connection: socket.socket) -> None:
        self.name, self.connection = name, connection
        self.written = b""
        self.done = False
        self.wrong: str | None = "nothing was said"

    def say(self, data: bytes) -> None:
        self.connection.sendall(data)
        self.written += data

    def finish(self) -> None:
        self.connection.shutdown(socket.SHUT_WR)
        self.done = True

    def check(self, expected: bytes) -> None:
        """Send the rest, and read all."""
        writer = threading.Thread(target=self._rest)
        try:
            self.connection.settimeout(PATIENCE)
            writer.start()
            found = b""
            while data := self.connection.recv(1 << 16):
                found += data
            writer.join()
            self.wrong = None if found == expected else f"{len(found)} bytes, not {len(expected)}"
        except OSError as error:
            self.wrong = str(error)

    def _rest(self) -> None:
        if not self.done:
            self.connection.sendall(AFTER)
            self.connection.shutdown(socket.SHUT_WR)


def established(one: End, other: End) -> None:
    """Close nothing; leave data to be read."""
    one.say(BEFORE)


def half_closed(one: End, other: End) -> None:
    """Reach FIN_WAIT2 and CLOSE_WAIT."""
    one.finish()


def half_closed_unread(one: End, other: End) -> None:
    """Reach the same, with unread bytes in both directions."""
    one.say(BEFORE)
    other.say(BEFORE)
    one.finish()


def end_behind_bytes(one: End, other: End) -> None:
    """Reach FIN_WAIT1: the end waits after bytes that do not fit."""
    one.written = fill(one.connection)
    one.finish()


def both_behind_bytes(one: End, other: End) -> None:
    """Let both ends wait after bytes that do not fit."""
    for end in (one, other):
        end.written = fill(end.connection)
        end.finish()


def closed(one: End, other: End) -> None:
    """Let both send all; the data waits to be read."""
    one.say(BEFORE)
    one.finish()
    other.say(BEFORE)
    other.finish()


STATES: list[Callable[[End, End], None]] = [
    established,
    half_closed,
    half_closed_unread,
    end_behind_bytes,
    both_behind_bytes,
    closed,
]


def main(folder: Path) -> None:
    """Make all of them; the first process has the clients, the second the servers, the third both ends."""
    pairs: dict[str, list[tuple[End, End]]] = {"apart": [], "together": []}
    cases = itertools.product(pairs, ("ipv4", "ipv6", "mapped"), STATES, ("client", "server"))
    for where, family, state, first in cases:
        name = f"{family} {state.__name__}, {where}, first the {first}"
        client, server = (
            End(f"{name}: {side}", end)
            for side, end in zip(("client", "server"), connect(family), strict=True)
        )
        state(*((client, server) if first == "client" else (server, client)))
        pairs[where].append((client, server))
    held = {
        0: [(client, server) for client, server in pairs["apart"]],
        1: [(server, client) for client, server in pairs["apart"]],
        2: [*pairs["together"], *((server, client) for client, server in pairs["together"])],
    }
    for process in (1, 2):
        if os.fork() == 0:
            hold(process, held, folder)
    hold(0, held, folder)


def hold(process: int, held: dict[int, list[tuple[End, End]]], folder: Path) -> None:
    """Keep the ends of one process and no others, until it is asked for them."""
    mine = {id(end) for end, _ in held[process]}
    for ends in held.values():
        for end, _ in ends:
            if id(end) not in mine:
                end.connection.close()
    (folder / f"ready-{process}").touch()
    while not (folder / "go").exists():
        time.sleep(0.05)
    threads = []
    for end, other in held[process]:
        expected = other.written + (b"" if other.done else AFTER)
        threads.append(threading.Thread(target=end.check, args=(expected,)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    wrong = {end.name: end.wrong for end, _ in held[process] if end.wrong}
    aside = folder / f"aside-{process}"
    aside.write_text(json.dumps({"count": len(held[process]), "wrong": wrong}))
    aside.rename(folder / f"said-{process}")
    os._exit(0)


main(Path(sys.argv[1]))
