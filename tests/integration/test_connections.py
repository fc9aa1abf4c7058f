"""The fate of connections: within a session all continue, to outside only the parent's do."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.engine import networks
from holdfast.runtime.api.controller import Holdfast

ETH_P_IP, ETH_P_ALL = 0x0800, 0x0003  # if_ether.h

WITHIN = (
    "tcp",
    "tcp6",
    "tcp-mapped",
    "tcp-own",
    "unix",
    "pair",
    "udp",
    "udp6",
    "udp-own",
    "unix-datagrams",
    "packets",
)


@pytest.mark.thorough
def test_streams_within_a_session_lose_no_byte(hf: Holdfast, witnesses: Any) -> None:
    """Both directions, full buffers, TCP on ::1, 127.0.0.1 and the own address, UNIX sockets, datagrams."""
    session = hf.new("talking")
    witnesses.start(hf, session, *WITHIN)
    taken = session.snapshot()
    assert witnesses.wrong(session, 20) == {}
    # A datagram may be lost in a copy, as anywhere; in the parent none is.
    assert {kind: said["notes"] for kind, said in witnesses.ask(session).items() if said["notes"]} == {}
    copy = taken.restore("copy")
    session.remove()  # they all talk as fast as they can
    assert witnesses.wrong(copy, 20) == {}
    again = copy.snapshot().restore("again")
    copy.remove()
    assert witnesses.wrong(again, 20) == {}


class Peer:
    """A server outside of the sessions, with a thread for each connection; it records the errors of each."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("0.0.0.0", 0))
        self.port: int = self.listener.getsockname()[1]
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind(("0.0.0.0", self.port))
        self.wrong: list[str] = []
        self.received = 0
        self._kept: list[socket.socket] = []
        for target in (self._accept, self._answer):
            threading.Thread(target=target, daemon=True).start()

    def close(self) -> None:
        for each in (self.listener, self.datagrams, *self._kept):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self._kept.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _answer(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                _, address = self.datagrams.recvfrom(100)
                if address is None:  # shut down
                    return
                self.datagrams.sendto(b"pong", address)

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError):
            stream = connection.makefile("rwb")
            word = stream.readline().split()
            if word[0] == b"pattern":
                threading.Thread(target=self._write, args=(connection,), daemon=True).start()
                self._read(stream)
            elif word[0] == b"GET":
                self._http(stream, word[1])
            elif word[0] == b"echo":
                while line := stream.readline():
                    stream.write(line)
                    stream.flush()
            else:
                while stream.read1(1 << 16):
                    pass

    def _http(self, stream: Any, path: bytes) -> None:
        while path:
            while stream.readline().strip():
                pass
            if path == b"/slow":
                stream.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nbegin")
            else:
                stream.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nquick")
            stream.flush()
            path = (stream.readline().split() or [b"", b""])[1]

    def _read(self, stream: Any) -> None:
        while True:
            data = stream.read1(1 << 16)
            if not data or data != expected(self.received, len(data)):
                self.wrong.append(f"{'end' if not data else 'other bytes'} at {self.received}")
                return
            self.received += len(data)

    def _write(self, connection: socket.socket) -> None:
        offset = 0
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(expected(offset, 5000))
                offset += 5000


class Sniffer:
    """Sees every packet that containers send, and keeps the packets that a copy must not send.

    In the namespace of the engine, at the outer ends of the containers' wires.
    """

    def __init__(self, parent: str, wire: str, port: int) -> None:
        self.seen = 0
        self.wrong: list[str] = []
        self._parent = socket.inet_aton(parent)
        self._wire, self._port = wire, port
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.ntohs(ETH_P_ALL))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
        self._socket.settimeout(0.2)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> list[str]:
        self._ends.set()
        self._thread.join()
        self._socket.close()
        return self.wrong

    def _run(self) -> None:
        while not self._ends.is_set():
            try:
                packet, (name, kind, direction, _, _) = self._socket.recvfrom(1 << 16)
            except TimeoutError:
                continue
            if kind == ETH_P_IP and direction != socket.PACKET_OUTGOING and name.startswith("veth"):
                self._look(packet, name)

    def _look(self, packet: bytes, name: str) -> None:
        from_parent = packet[12:16] == self._parent
        if from_parent and name != self._wire:
            self.wrong.append(f"a packet with the parent's address on {name}: {packet[:60].hex()}")
        header = (packet[0] & 15) * 4
        if packet[9] == socket.IPPROTO_TCP:
            self.seen += 1
            to, flags = int.from_bytes(packet[header + 2 : header + 4], "big"), packet[header + 13]
            if to == self._port and flags & 4:
                self.wrong.append(f"a reset to the server on {name}: {packet[:60].hex()}")


def expected(offset: int, size: int) -> bytes:
    """Return the bytes of tests/inside/witness/streams.py."""
    start = offset % len(PATTERN)
    return TWICE[start : start + size]


PATTERN = random.Random(3).randbytes((1 << 16) + 1)
TWICE = PATTERN * 2

# How connections to outside end in a copy. Each of these means: closed, and not by you.
ENDS = {
    "reads": "b''",
    "writes": "BrokenPipeError",
    "polls": "True b''",
    "selects": "b''",
    "streams": "incomplete",
    "downloads": "incomplete",
    "curls": "18",  # "partial file", see curl(1)
    "keeps": "quick at attempt 2",
    "pools": "quick",
    "asks": "BrokenPipeError",
    "datagrams": "pong",
}


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.close()


def gateway(hf: Holdfast) -> str:
    network = hf.engine.client.api.inspect_network(networks.ensure(hf.engine))
    return str(network["IPAM"]["Config"][0]["Gateway"])


def test_connections_to_outside_end_in_copies_and_live_in_the_parent(
    hf: Holdfast, witnesses: Any, peer: Peer
) -> None:
    """Copies notice immediately, in whatever call they block; the parent's stream loses no byte, and no
    packet of a copy carries the parent's address or resets its connections.
    """
    host = gateway(hf)
    session = hf.new("reaching", allow=[f"{host}:{peer.port}"])
    session.exec(f"export OUTER={host}:{peer.port}", timeout=30)
    witnesses.start(hf, session, "outer")
    ready = "until [ -e /dev/shm/outside-ready ]; do sleep 0.01; done"
    started = session.exec(f"python3 -m witness.outside {host} {peer.port} & {ready}", timeout=120)
    assert started.exit_code == 0, started.text
    address = session.exec("hostname -i", timeout=30).text.strip()
    wire = socket.if_indextoname(int(session.exec("cat /sys/class/net/eth0/iflink", timeout=30).text))
    sniffer = Sniffer(address, wire, peer.port)
    try:
        copies = session.snapshot().fork(2, "copy")
        for copy in copies:
            await_all = (
                "import json, time; from pathlib import Path; p = Path('/dev/shm/outside')\n"
                f"while not p.exists() or len(json.loads(p.read_text())) < {len(ENDS)}: time.sleep(0.01)\n"
                "print(p.read_text())"
            )
            told = copy.cell(await_all, timeout=120)
            assert json.loads(told.stdout) == ENDS
            assert witnesses.wrong(copy)["outer"].startswith("end at ")
        assert witnesses.wrong(session, 20) == {}
        assert session.exec("cat /dev/shm/outside 2>/dev/null", timeout=30).text == ""
        before = peer.received
        assert witnesses.wrong(session, 20) == {}
        assert peer.received > before
        assert peer.wrong == []
    finally:
        wrong = sniffer.end()
    assert sniffer.seen > 0
    assert wrong == []


@pytest.mark.thorough
def test_unfinished_connections_are_completed(hf: Holdfast) -> None:
    """The server's queue is full. When it has room, the parent's call succeeds, and so does the copy's."""
    with socket.create_server(("0.0.0.0", 0), backlog=0) as listener:
        listener.settimeout(60)
        host, port = gateway(hf), listener.getsockname()[1]
        session = hf.new("waiting", allow=[f"{host}:{port}"])
        with socket.create_connection((host, port)):
            code = (
                "import socket, threading\n"
                "def reach():\n"
                f"    global got; s = socket.create_connection(({host!r}, {port})); s.sendall(b'here')\n"
                "    got = s.recv(100)\n"
                "t = threading.Thread(target=reach); t.start()"
            )
            assert session.cell(code, timeout=60).status == "ok"
            state = session.exec("until ss -tan | grep -q SYN-SENT; do sleep 0.01; done", timeout=60)
            assert state.exit_code == 0
            copy = session.snapshot().restore("copy")
            listener.accept()[0].close()
            for _ in range(2):
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(60)
                    assert connection.recv(100) == b"here"
                    connection.sendall(b"welcome")
            for each in (session, copy):
                assert each.cell("t.join(); print(got)", timeout=120).stdout == "b'welcome'\n"


def test_data_sent_before_hanging_up_arrives_in_copies(hf: Holdfast) -> None:
    """The sender has left, and most of the data is still in the kernel when the session is captured."""
    session = hf.new("hearing")
    size = 1_500_000
    session.exec(
        "cat > talk.py <<'END'\n"
        "import os, socket, sys, time\n"
        "with socket.create_server(('127.0.0.1', 0)) as listener:\n"
        "    reader = socket.create_connection(listener.getsockname())\n"
        "    talker = listener.accept()[0]\n"
        "if os.fork() == 0:\n"
        "    reader.close()\n"
        "    talker.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4000000)\n"
        f"    talker.sendall(bytes({size}))\n"
        "    os._exit(0)\n"
        "talker.close()\n"
        "os.wait()\n"
        "print('said', flush=True)\n"
        "heard = 0\n"
        "sys.stdin.readline()\n"
        "while data := reader.recv(4096):\n"
        "    heard += len(data)\n"
        "print(f'heard {heard}', flush=True)\n"
        "END"
    )
    session.exec("python3 talk.py > told < <(until test -e go; do sleep 0.05; done; echo) &")
    session.exec("until grep -q said told; do sleep 0.05; done")
    copy = session.snapshot().restore("copy")
    for each in (copy, session):
        asked = each.exec("touch go; wait %1; cat told", timeout=60)
        assert f"heard {size}" in asked.text


ACCEPTED_LATE = """
import json, pathlib, socket, time
listener = socket.create_server(("127.0.0.1", 0))
listener.settimeout(5)
wrong, aside = [], pathlib.Path("/dev/shm/aside")
while True:
    client = socket.create_connection(listener.getsockname())
    client.sendall(b"asked")
    time.sleep(0.08)
    try:
        server = listener.accept()[0]
        server.sendall(server.recv(100) + b" and answered")
        assert client.recv(100) == b"asked and answered"
        server.close()
    except (OSError, AssertionError) as error:
        wrong.append(repr(error))
    client.close()
    aside.write_text(json.dumps(wrong))
    aside.rename("/dev/shm/rounds")
    time.sleep(0.04)
"""


@pytest.mark.thorough
def test_a_connection_that_is_just_being_accepted_is_waited_for(hf: Holdfast) -> None:
    """Two of three captures meet one, and only the server can read what was sent then."""
    session = hf.new("accepting")
    session.exec(f"cat > late.py <<'END'\n{ACCEPTED_LATE}\nEND\nsetsid python3 late.py > /dev/null 2> log &")
    session.exec("until [ -e /dev/shm/rounds ]; do sleep 0.01; done", timeout=60)
    for _ in range(2):
        copy = session.snapshot().restore()
        renewed = "rm -f /dev/shm/rounds; until cat /dev/shm/rounds log; do sleep 0.01; done 2> /dev/null"
        assert copy.exec(renewed, timeout=60).text == "[]"
        copy.remove()
    assert session.exec("cat /dev/shm/rounds log", timeout=60).text == "[]"
