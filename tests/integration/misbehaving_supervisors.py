"""Programs in the place of a session's supervisor, each with its own kind of misbehaviour."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from holdfast import Session
from holdfast.runtime.guest import layout
from holdfast.runtime.guest.wire.protocol import Frame, FrameReader, encode

PATIENCE = 0.3
"""Seconds to which all of the host's limits are cut, so that reaching them takes no time."""
BOUND = 20.0
"""Seconds within which a call must end then, on a machine with much else to do."""
ASIDE = "aside.sock"

Peer = socket.socket
Misbehave = Callable[[Peer, dict[str, Any], threading.Event], None]


def say(peer: Peer, head: dict[str, Any], payload: bytes = b"") -> None:
    """Send one frame."""
    peer.sendall(encode(Frame(head, payload)))


def silent(_peer: Peer, _asked: dict[str, Any], over: threading.Event) -> None:
    over.wait()


def drip(peer: Peer, _asked: dict[str, Any], over: threading.Event) -> None:
    """A frame of a megabyte, byte by byte."""
    peer.sendall(struct.pack(">II", 1 << 20, 0) + b'{"event": "')
    while not over.wait(PATIENCE / 10):
        peer.sendall(b"x")


def drip_frames(peer: Peer, _asked: dict[str, Any], over: threading.Event) -> None:
    """Whole frames, slowly, without end."""
    while not over.wait(PATIENCE / 10):
        say(peer, {"event": "nothing"})


def flood(peer: Peer, _asked: dict[str, Any], over: threading.Event) -> None:
    frame = encode(Frame({"event": "output", "offset": 0, "next": 1 << 20}, bytes(1 << 20)))
    for _ in range(300):
        if over.is_set():
            return
        peer.sendall(frame)


def hang_up(_peer: Peer, _asked: dict[str, Any], _over: threading.Event) -> None:
    return


def garbage(peer: Peer, _asked: dict[str, Any], _over: threading.Event) -> None:
    peer.sendall(b"HTTP/1.1 200 OK\r\n\r\n" * 100)


def larger_than_allowed(peer: Peer, _asked: dict[str, Any], _over: threading.Event) -> None:
    peer.sendall(b"\xff" * 64)


def of_another_request(peer: Peer, _asked: dict[str, Any], _over: threading.Event) -> None:
    """Return the answer of `prepare`, whatever was asked."""
    say(peer, {"event": "prepared", "token": "a" * 32, "supervisor_pid": 2, "end": True})


def twice(peer: Peer, asked: dict[str, Any], _over: threading.Event) -> None:
    """Return an answer without fields, and a second one after the last."""
    for _ in range(2):
        say(peer, {"event": asked.get("op"), "end": True})
    say(peer, {"event": "finished", "exit_code": 0})


def out_of_order(peer: Peer, _asked: dict[str, Any], _over: threading.Event) -> None:
    say(peer, {"event": "finished", "end": False, "status": "ok"})
    say(peer, {"event": "started", "offset": 1 << 60})
    say(peer, {"event": "output", "offset": 5, "next": 1}, b"late")
    say(peer, {"event": "ended", "end": True})


def error_to_look_at(peer: Peer, _asked: dict[str, Any], _over: threading.Event) -> None:
    message = "cannot\n\x1b]52;c;QUJD\x07\x9b6n\u202e" + "x" * 900_000
    say(peer, {"event": "error", "code": "../../x", "message": message, "end": True})


def error_without_words(peer: Peer, _asked: dict[str, Any], _over: threading.Event) -> None:
    say(peer, {"event": "error", "code": [1], "message": {"a": None}, "end": True})


MISBEHAVIOURS: tuple[Misbehave, ...] = (
    *(silent, drip, drip_frames, flood, hang_up, garbage, larger_than_allowed, of_another_request),
    *(twice, out_of_order, error_to_look_at, error_without_words),
)


class Supervisor:
    """Listens where the session's supervisor did. It runs on the host, which cannot see the difference."""

    def __init__(self, folder: Path, misbehave: Misbehave) -> None:
        self.asked: list[str] = []
        self._misbehave = misbehave
        self._over = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        self._listener.bind(f"/proc/self/fd/{descriptor}/{layout.SOCKET_NAME}")
        os.close(descriptor)
        self._listener.listen(64)
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while not self._over.is_set():
                peer, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(peer,), daemon=True)
                thread.start()
                self._threads.append(thread)

    def _serve(self, peer: Peer) -> None:
        with peer, suppress(OSError):
            peer.settimeout(BOUND)
            reader, frames = FrameReader(), list[Frame]()
            while not frames:
                data = peer.recv(1 << 16)
                if not data:
                    return
                frames = reader.feed(data)
            self.asked.append(frames[0].op)
            self._misbehave(peer, frames[0].head, self._over)

    def close(self) -> None:
        self._over.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(BOUND)


@contextmanager
def replaced(session: Session, misbehave: Misbehave) -> Iterator[Supervisor]:
    """Put another program in the place of the session's supervisor, within the block."""
    folder = session._context.home.run_dir(session.id)
    real = folder / layout.SOCKET_NAME
    aside = folder / ASIDE
    real.rename(aside)
    supervisor = Supervisor(folder, misbehave)
    try:
        yield supervisor
    finally:
        supervisor.close()
        aside.rename(real)
