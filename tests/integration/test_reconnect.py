"""Every connection cut during 100 MB of output: every byte arrives once, and in order."""

from __future__ import annotations

import hashlib
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, Session
from holdfast.base import run_dir
from holdfast.base.home import Home
from holdfast.runtime.guest import layout
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.guest_rpc.reconnect import Reconnection
from holdfast.runtime.guest_rpc.shell_calls import Following

pytestmark = pytest.mark.thorough

PATIENCE = 120.0
PARTS = 5
PART = 1_820_000
"""The number of 11-byte lines in a part: 20 MB."""
GATE = "/workspace/gate"
SOURCE = f"""mkfifo {GATE}; for part in $(seq {PARTS}); do
  seq $((1000000000 + (part - 1) * {PART})) $((999999999 + part * {PART}))
  [ $part = {PARTS} ] || read x <{GATE}
done; rm {GATE}"""
JOIN = """
import sys
from holdfast import Holdfast
with Holdfast() as hf, open(sys.argv[3], "wb", buffering=0) as kept:
    hf.session(sys.argv[1]).join(sys.argv[2], on_bytes=kept.write)
"""


def lines() -> bytes:
    """Return the source's output, made by the same program outside."""
    last = 999_999_999 + PARTS * PART
    return subprocess.run(["seq", "1000000000", str(last)], check=True, capture_output=True).stdout


def until(fact: Callable[[], bool], what: str) -> None:
    """Wait for a fact that nothing announces."""
    ends = time.monotonic() + PATIENCE
    while not fact():
        assert time.monotonic() < ends, f"not in {PATIENCE:.0f} s: {what}"
        select.select([], [], [], 0.01)


class Proxy:
    """The socket of a session at a different place, whose connections break after this many bytes."""

    def __init__(self, folder: Path, session: Path, limit: int) -> None:
        self.cuts = 0
        self._session = session
        self._limit = limit
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / layout.SOCKET_NAME))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with near:
                try:
                    # A path of its own may be longer than the 108 bytes of an address (unix(7)).
                    with run_dir.connect(self._session, layout.SOCKET_NAME, None) as far:
                        self._pass_on(near, far)
                except OSError:
                    continue

    def _pass_on(self, near: socket.socket, far: socket.socket) -> None:
        left = self._limit
        while True:
            ready, _, _ = select.select([near, far], [], [])
            for one, other in ((near, far), (far, near)):
                if one not in ready:
                    continue
                data = one.recv(1 << 16)
                if not data:
                    return
                if one is far and len(data) >= left:
                    # In the middle of a frame, and the two ends in turn.
                    other.sendall(data[: left - 1])
                    (near if self.cuts % 2 else far).shutdown(socket.SHUT_RDWR)
                    self.cuts += 1
                    return
                other.sendall(data)
                left -= len(data) if one is far else 0


@contextmanager
def reader_that_never_reads(folder: Path, command: str) -> Iterator[None]:
    with GuestClient(folder).open("wait", id=command, shell=layout.MAIN):
        yield


def memory_of_supervisor(session: Session, pid: int) -> int:
    """Return the resident bytes, as seen inside."""
    shown = session.cell(f"print(open('/proc/{pid}/status').read())").stdout
    return int(re.findall(r"VmRSS:\s+(\d+) kB", shown)[0]) << 10


def recorded(folder: Path, start: int, end: int, step: int) -> bytes:
    """Return the output of the terminal between two offsets, fetched in pieces that fit no frame."""
    found, at = [], start
    while at < end:
        with GuestClient(folder).open(
            "read", shell=layout.MAIN, offset=at, end=min(at + step, end)
        ) as reader:
            for frame in reader.events():
                assert wire_fields.event(frame) in ("output", "eof")
                found.append(frame.payload)
        at = min(at + step, end)
    return b"".join(found)


def test_a_hundred_megabytes_survive_every_cut(hf: Holdfast, home: Home, cli: Any, tmp_path: Path) -> None:
    """Clients killed, connections cut, a capture, readers that do not read: identical bytes, flat memory."""
    session = hf.new("source")
    folder = home.run_dir(session.id)
    pid = wire_fields.integer(GuestClient(folder).request("hello"), "pid")
    before = memory_of_supervisor(session, pid)
    expected = lines()
    assert len(expected) == 11 * PART * PARTS > 100_000_000

    def open_gate() -> None:
        session.cell(f"open('{GATE}', 'w').write('go\\n') and None")

    # The client that began it is killed in the middle of the first part.
    with (tmp_path / "first").open("wb") as kept:
        first = cli.start("exec", session.name, SOURCE, stdout=kept)
        until(lambda: (tmp_path / "first").stat().st_size > 5_000_000, "output of the first client")
        first.send_signal(signal.SIGKILL)
        first.wait(PATIENCE)
    command = session.shell().command_id
    assert command is not None

    with reader_that_never_reads(folder, command), reader_that_never_reads(folder, command):
        open_gate()
        # Another process joins it by its id, from the beginning, and is killed in the second part.
        second = subprocess.Popen(
            [sys.executable, "-c", JOIN, session.name, command, str(tmp_path / "second")],
            env=cli.environment,
        )
        until(
            lambda: (tmp_path / "second").exists() and (tmp_path / "second").stat().st_size > 25_000_000,
            "output of the second client",
        )
        second.kill()
        second.wait(PATIENCE)
        # A third continues to the end, through a connection that breaks every 7 MB, and through a capture.
        (tmp_path / "proxy").mkdir()
        proxy = Proxy(tmp_path / "proxy", folder, 7_000_001)
        digest, size = hashlib.sha256(), 0

        def take(data: bytes) -> None:
            nonlocal size
            digest.update(data)
            size += len(data)

        following = Following(
            GuestClient(tmp_path / "proxy"),
            Reconnection(lambda: None),
            command,
            shell=layout.MAIN,
            on_bytes=take,
        )
        results: list[Any] = []
        third = threading.Thread(target=lambda: results.append(following.run()), daemon=True)
        third.start()
        open_gate()
        session.snapshot("middle").remove()
        open_gate()
        open_gate()
        third.join(PATIENCE)
        proxy.close()
        assert memory_of_supervisor(session, pid) < before + (24 << 20)

    result = results[0]
    assert (result.exit_code, result.lost, size) == (0, 0, len(expected))
    assert digest.digest() == hashlib.sha256(expected).digest()
    assert proxy.cuts > 10
    for partial in ("first", "second"):
        assert expected.startswith((tmp_path / partial).read_bytes())
    # The terminal writes each newline as two characters.
    raw = expected.replace(b"\n", b"\r\n")
    assert result.end_offset - result.start_offset == len(raw)
    assert recorded(folder, result.start_offset, result.end_offset, 9_999_991) == raw
    middle = session.join(command, start=result.start_offset + 60_000_000)
    rest = raw[60_000_000:].replace(b"\r\n", b"\n")
    assert len(middle.output) >= 16 << 20
    assert rest.endswith(middle.output)
    assert middle.dropped == len(rest) - len(middle.output)
