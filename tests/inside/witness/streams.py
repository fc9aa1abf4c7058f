"""Witnesses that talk to each other: two processes, bytes in both directions, every byte known beforehand."""

from __future__ import annotations

import mmap
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

from witness.status import Status

# Its length is not a multiple of anything: lost, doubled or moved bytes are noticed.
PATTERN = random.Random(3).randbytes((1 << 16) + 1)
MOST = 1 << 16
TWICE = PATTERN * 2
CHUNKS = (1, 700, 1448, 4096, 30_001, 65_536)
NUMBER = struct.Struct("<Q")
Pair = tuple[socket.socket, socket.socket]


def _expected(offset: int, size: int) -> bytes:
    start = offset % len(PATTERN)
    return TWICE[start : start + size]


class _End:
    """One end in a process of its own: writes what fits, reads now and then, so that queues are full."""

    def __init__(self, connection: socket.socket, shared: mmap.mmap, index: int) -> None:
        self._connection = connection
        self._shared = shared
        self._index = index

    def run(self) -> None:
        threading.Thread(target=self._write, daemon=True).start()
        offset = 0
        while True:
            data = self._connection.recv(MOST)
            if not data or data != _expected(offset, len(data)):
                self._tell(0, f"{'end' if not data else 'other bytes'} at {offset}")
                return
            offset += len(data)
            self._tell(offset, "")
            time.sleep(0.003)

    def _tell(self, offset: int, complaint: str) -> None:
        NUMBER.pack_into(self._shared, self._index * 512, offset)
        if complaint:
            self._shared[self._index * 512 + 8 : self._index * 512 + 508] = complaint.encode().ljust(
                500, b"\0"
            )

    def _write(self) -> None:
        offset = turn = 0
        while True:
            size = CHUNKS[turn % len(CHUNKS)]
            self._connection.sendall(_expected(offset, size))
            offset, turn = offset + size, turn + 1


def outer(_folder: Path, status: Status) -> None:
    """Run one end here, the other one outside, at the address in OUTER; the outer end also compares."""
    host, _, port = os.environ["OUTER"].rpartition(":")
    connection = socket.create_connection((host, int(port)))
    connection.sendall(b"pattern\n")
    shared = mmap.mmap(-1, 4096)
    threading.Thread(target=_End(connection, shared, 0).run, daemon=True).start()
    seen = 0
    while True:
        now = NUMBER.unpack_from(shared, 0)[0]
        said = shared[8:508].rstrip(b"\0").decode()
        if said or now > seen:
            status.round(said)
            seen = now
        time.sleep(0.005)


def _streaming(make: Callable[[Path], Pair]) -> Callable[[Path, Status], None]:
    """Count a round when both ends have read something more, and all of it was right."""

    def run(folder: Path, status: Status) -> None:
        pair = make(folder)
        shared = mmap.mmap(-1, 4096)
        for index, connection in enumerate(pair):
            if os.fork() == 0:
                pair[1 - index].close()
                _End(connection, shared, index).run()
                os._exit(1)
        for connection in pair:
            connection.close()
        seen = [0, 0]
        while True:
            now = [NUMBER.unpack_from(shared, index * 512)[0] for index in (0, 1)]
            said = [shared[i * 512 + 8 : i * 512 + 508].rstrip(b"\0").decode() for i in (0, 1)]
            if any(said) or all(one > two for one, two in zip(now, seen, strict=True)):
                status.round(" ".join(said).strip())
                seen = now
            time.sleep(0.005)

    return run


def _tcp(host: str) -> Callable[[Path], Pair]:
    def made(_folder: Path) -> Pair:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        address = host or socket.gethostbyname(socket.gethostname())
        with socket.create_server((address, 0), family=family) as listener:
            client = socket.socket(family)
            client.connect(listener.getsockname()[:2])
            return client, listener.accept()[0]

    return made


def _tcp_mapped(_folder: Path) -> Pair:
    """Connect an IPv4 client to a server for both families: one end of the connection is an IPv6 socket."""
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
        client = socket.create_connection(("127.0.0.1", listener.getsockname()[1]))
        return client, listener.accept()[0]


def _unix(folder: Path) -> Pair:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        listener.listen()
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(folder / "socket"))
        return client, listener.accept()[0]


def _datagrams(make: Callable[[Path], Pair]) -> Callable[[Path, Status], None]:
    """Send a number to and fro. One that does not come for a while is sent again, and noted."""

    def run(folder: Path, status: Status) -> None:
        one, two = make(folder)
        if os.fork() == 0:
            one.close()
            while True:
                two.send(two.recv(100))
        two.close()
        one.settimeout(1.0)
        number = 0
        while True:
            number += 1
            one.send(NUMBER.pack(number))
            while True:
                try:
                    back = NUMBER.unpack(one.recv(100))[0]
                except TimeoutError:
                    status.note()
                    one.send(NUMBER.pack(number))
                    continue
                if back >= number:
                    break
            status.round("" if back == number else f"{back} instead of {number}")
            time.sleep(0.001)

    return run


def _udp(host: str) -> Callable[[Path], Pair]:
    def made(_folder: Path) -> Pair:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        address = host or socket.gethostbyname(socket.gethostname())
        one, two = (socket.socket(family, socket.SOCK_DGRAM) for _ in range(2))
        one.bind((address, 0))
        two.bind((address, 0))
        one.connect(two.getsockname()[:2])
        two.connect(one.getsockname()[:2])
        return one, two

    return made


def _unix_datagrams(folder: Path) -> Pair:
    one, two = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
    one.bind(str(folder / "one"))
    two.bind(str(folder / "two"))
    one.connect(str(folder / "two"))
    two.connect(str(folder / "one"))
    return one, two


def _packets(_folder: Path) -> Pair:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


KINDS: dict[str, Callable[[Path, Status], None]] = {
    "tcp": _streaming(_tcp("127.0.0.1")),
    "tcp6": _streaming(_tcp("::1")),
    "tcp-mapped": _streaming(_tcp_mapped),
    "tcp-own": _streaming(_tcp("")),
    "unix": _streaming(_unix),
    "pair": _streaming(lambda _folder: socket.socketpair()),
    "udp": _datagrams(_udp("127.0.0.1")),
    "udp6": _datagrams(_udp("::1")),
    "udp-own": _datagrams(_udp("")),
    "unix-datagrams": _datagrams(_unix_datagrams),
    "packets": _datagrams(_packets),
    "outer": outer,
}
