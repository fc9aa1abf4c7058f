"""Possible answers of the engine's socket to a request for running containers."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from urllib.parse import unquote

import pytest

from holdfast.engine import quick_list

OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"


def asked(path: Path, answer: bytes, monkeypatch: pytest.MonkeyPatch) -> tuple[set[str] | None, bytes]:
    """Return the parsed answer, and the request."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    questions: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                questions.append(peer.recv(65536))
                peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        found = quick_list.running(holdfast_home="abc")
        thread.join()
    return found, questions[0]


def test_ids_are_read_and_labels_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = b'[{"Id": "one", "More": 1}, {"Id": "two"}]'
    found, question = asked(tmp_path / "s", OK % (len(body), body), monkeypatch)

    assert found == {"one", "two"}
    assert "holdfast.home=abc" in unquote(question.decode())
    assert "running" in unquote(question.decode())


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"x", b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\n[]", OK % (1, b"["), OK % (2, b"{}"),
        OK % (3, b"[5]"), OK % (4, b"[{}]"), OK % (9, b"[]"), b"HTTP/1.1 301 X\r\nLocation: http://x/\r\n\r\n",
    ],
)  # fmt: skip
def test_other_answers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    """The SDK asks again then, and says what is wrong."""
    found, _ = asked(tmp_path / "s", answer, monkeypatch)
    assert found is None


@pytest.mark.parametrize("place", ["tcp://127.0.0.1:1", "ssh://host", "unix:///nothing/here"])
def test_other_engines_are_not_asked(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", place)
    assert quick_list.running(holdfast_home="abc") is None
