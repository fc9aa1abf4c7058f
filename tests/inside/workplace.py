"""A busy workplace in a session: a project that is watched, connections, and terminals, checked all the time.

`python3 workplace.py FOLDER WATCHES CONNECTIONS TERMINALS`. Each part is a process that makes
FOLDER/ready-PART, waits for FOLDER/ask-N (N from 0), and answers in FOLDER/said-PART-N when it has done a
good deal more: how much it has done, its errors, and how often events were reported lost.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pty
import random
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

FOLDER = Path(sys.argv[1])
WATCHES, CONNECTIONS, TERMINALS = map(int, sys.argv[2:5])
TREE = FOLDER / "tree"
QUEUES = 4
PAUSE = 0.01
"""Seconds between two rounds, so that the machine has time for a capture."""
MORE = 300
"""Rounds before a question is answered."""
MOST_TOLD = 20
ALL_EVENTS = 0xFFF
CREATE, OPEN, MODIFY, CLOSE_WRITE, DELETE, OVERFLOW = 0x100, 0x20, 0x2, 0x8, 0x200, 0x4000
STEPS = (CREATE, OPEN, MODIFY, CLOSE_WRITE, DELETE)
BLOCK = random.Random(1).randbytes(65521)  # a prime: lost or doubled data is noticed
LARGEST = 3000


class Part:
    """The counts of one part, and its answers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.wrong: list[str] = []
        self.done = self.overflows = self._number = 0
        self._asked_at: int | None = None
        (FOLDER / f"ready-{name}").touch()

    def complain(self, text: str) -> None:
        if len(self.wrong) < MOST_TOLD:
            self.wrong.append(text)

    def round(self) -> None:
        """Count one more round."""
        self.done += 1
        if self._asked_at is None and (FOLDER / f"ask-{self._number}").exists():
            self._asked_at = self.done
        if self._asked_at is not None and self.done >= self._asked_at + MORE:
            answer = {"done": self.done, "wrong": self.wrong, "overflows": self.overflows}
            path = FOLDER / f"said-{self.name}-{self._number}"
            path.with_suffix(".new").write_text(json.dumps(answer))
            path.with_suffix(".new").rename(path)
            self._number, self._asked_at = self._number + 1, None


def change() -> None:
    """Make and remove a file in one folder after the other, its name a number."""
    part = Part("changes")
    while True:
        for _ in range(4):
            path = TREE / str(part.done % WATCHES) / str(part.done)
            path.write_bytes(b"x")
            path.unlink()
            part.round()
        time.sleep(PAUSE)


def events(queue: int) -> Iterator[tuple[int, int, str]]:
    """Return watch, mask and name of the events in a queue."""
    data = os.read(queue, 1 << 20)
    while data:
        watch, mask, _, length = struct.unpack_from("iIII", data)
        yield watch, mask, data[16 : 16 + length].rstrip(b"\0").decode()
        data = data[16 + length :]


def watch() -> None:
    """Check that each change is reported once, in order, by its watch, and nothing else."""
    libc = ctypes.CDLL(None)
    queues = [libc.inotify_init1(os.O_NONBLOCK) for _ in range(QUEUES)]
    folders: dict[tuple[int, int], int] = {}
    for folder in range(WATCHES):
        queue = queues[folder % QUEUES]
        folders[queue, libc.inotify_add_watch(queue, bytes(TREE / str(folder)), ALL_EVENTS)] = folder
    # For each queue the number and step that comes next; None: it is not known.
    due: dict[int, tuple[int, int] | None] = {queue: (first, 0) for first, queue in enumerate(queues)}
    part = Part("watches")
    while True:
        for queue in select.select(queues, [], [], 1.0)[0]:
            for descriptor, mask, name in events(queue):
                if mask == OVERFLOW:
                    part.overflows, due[queue] = part.overflows + 1, None
                    continue
                if mask not in STEPS or not name.isdecimal():
                    part.complain(f"event {mask:x} of {name!r}")
                    continue
                number, step = int(name), STEPS.index(mask)
                if due[queue] not in (None, (number, step)) or folders[queue, descriptor] != number % WATCHES:
                    part.complain(f"{name} {mask:x}, not {due[queue]}")
                # The next of its folders, in turn: their number is a multiple of that of the queues.
                due[queue] = (number, step + 1) if mask != DELETE else (number + QUEUES, 0)
        part.round()
        time.sleep(PAUSE)


class Stream:
    """One end of a connection: it writes a block again and again, and reads the other end's blocks."""

    def __init__(self, end: socket.socket, number: int) -> None:
        self.end, self.number = end, number
        self._written = self._read = number * 311
        self._sizes = random.Random(number)
        end.setblocking(False)

    def write(self) -> None:
        begin = self._written % len(BLOCK)
        size = self._sizes.randrange(1, LARGEST)
        with contextlib.suppress(BlockingIOError):
            self._written += self.end.send(BLOCK[begin : begin + size])

    def read(self) -> str:
        """Return the error; empty if there is none."""
        try:
            data = self.end.recv(1 << 16)
        except BlockingIOError:
            return ""
        if not data:
            return f"connection {self.number} has ended"
        begin = self._read % len(BLOCK)
        self._read += len(data)
        return (
            "" if (BLOCK + BLOCK)[begin : begin + len(data)] == data else f"connection {self.number}: bytes"
        )


def talk(name: str, ends: list[socket.socket]) -> None:
    """Write to all connections and read all, at its own pace."""
    streams = [Stream(end, number) for number, end in enumerate(ends)]
    part = Part(name)
    ended: set[int] = set()
    while True:
        for one in streams:
            if one.number in ended:
                continue
            try:
                one.write()
                wrong = one.read()
            except OSError as error:
                wrong = f"connection {one.number}: {error}"
            if wrong:
                part.complain(wrong)
                ended.add(one.number)
        part.round()
        time.sleep(PAUSE)


def connect() -> tuple[list[socket.socket], list[socket.socket]]:
    """Return both ends of all connections: IPv4, IPv6, IPv4 to a server for both, and UNIX, in turn."""
    clients, servers = [], []
    with (
        socket.create_server(("127.0.0.1", 0)) as four,
        socket.create_server(("::1", 0), family=socket.AF_INET6) as six,
        socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as both,
        socket.socket(socket.AF_UNIX) as unix,
    ):
        unix.bind(str(FOLDER / "socket"))
        unix.listen()
        for number in range(CONNECTIONS):
            listener = (four, six, both, unix)[number % 4]
            client = socket.socket(listener.family if listener is not both else socket.AF_INET)
            address = listener.getsockname()
            client.connect(("127.0.0.1", address[1]) if listener is both else address)
            clients.append(client)
            servers.append(listener.accept()[0])
    return clients, servers


class Terminal:
    """A program in a terminal of its own, which answers a number with the next one."""

    PROGRAM = 'stty -echo; echo 0; while read -r number; do echo "$((number + 1))"; done'

    def __init__(self) -> None:
        pid, self.master = pty.fork()
        if pid == 0:
            os.execvp("sh", ["sh", "-c", self.PROGRAM])
        self._heard, self._due = b"", 0

    def hear(self) -> str:
        """Read, and answer a whole line. Return the error; empty if there is none."""
        try:
            self._heard += os.read(self.master, 1000)
        except OSError as error:
            return f"terminal {self.master}: {error}"
        if not self._heard.endswith(b"\n"):
            return ""
        wrong = self._heard != b"%d\r\n" % self._due
        said = f"terminal {self.master}: {self._heard!r}, not {self._due}" if wrong else ""
        os.write(self.master, b"%d\n" % self._due)
        self._due, self._heard = self._due + 1, b""
        return said


def converse() -> None:
    """Send a number to each terminal, and read the next one."""
    terminals = {one.master: one for one in (Terminal() for _ in range(TERMINALS))}
    part = Part("terminals")
    while True:
        for master in select.select(list(terminals), [], [], 1.0)[0]:
            wrong = terminals[master].hear()
            if wrong:
                part.complain(wrong)
                del terminals[master]
        part.round()
        time.sleep(PAUSE * 2)


def apart(what: Callable[[], None]) -> None:
    """Run it in a process of its own."""
    if os.fork() == 0:
        what()


for one in range(WATCHES):
    (TREE / str(one)).mkdir(parents=True)
ours, theirs = connect()
apart(lambda: talk("clients", ours))
apart(lambda: talk("servers", theirs))
for each in (*ours, *theirs):
    each.close()
apart(converse)
apart(watch)
while not (FOLDER / "ready-watches").exists():
    time.sleep(0.01)
change()
