"""A home in a temporary folder, and a supervisor that answers from a script."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.base.home import Home
from holdfast.runtime.guest.wire.protocol import Frame, FrameReader, encode

Answer = Callable[["Peer", Frame], None]


class Peer:
    """The supervisor's end of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._reader = FrameReader()
        self._frames: list[Frame] = []

    def send(self, payload: bytes = b"", **head: object) -> None:
        self.socket.sendall(encode(Frame(dict(head), payload)))

    def receive(self) -> Frame | None:
        while not self._frames:
            data = self.socket.recv(65536)
            if not data:
                return None
            self._frames = self._reader.feed(data)
        return self._frames.pop(0)


class FakeGuest:
    """Answers the n-th request with the n-th script, and remembers the requests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.requests: list[Frame] = []
        self._answers: list[Answer] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._thread: threading.Thread | None = None

    def __call__(self, *answers: Answer) -> FakeGuest:
        self._answers = list(answers)
        self._listener.bind(str(self.folder / "guest.sock"))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def _serve(self) -> None:
        for answer in self._answers:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                peer = Peer(connection)
                request = peer.receive()
                if request is None:
                    continue
                self.requests.append(request)
                try:
                    answer(peer, request)
                except OSError:
                    continue

    def close(self) -> None:
        if self._thread is not None:
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes a thread that still waits
            self._thread.join(timeout=60)
        self._listener.close()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").create()


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[FakeGuest]:
    fake = FakeGuest(tmp_path)
    yield fake
    fake.close()
