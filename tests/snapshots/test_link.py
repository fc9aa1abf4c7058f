"""The host's message when the checkpointer dies in the middle of a conversation."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.snapshots.link import SOCKET, CheckpointerLink, LinkLost


@pytest.fixture
def ends(tmp_path: Path) -> tuple[CheckpointerLink, socket.socket]:
    """A link, and the other end of it."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / SOCKET))
        listener.listen()
        link = CheckpointerLink(tmp_path, "dump")
        return link, listener.accept()[0]


@pytest.mark.parametrize(
    "call",
    [lambda link: list(link.events()), lambda link: link.until("done"), lambda link: link.decide("go")],
    ids=["events", "until", "decide"],
)
def test_an_end_with_something_unread_is_a_lost_link(
    ends: tuple[CheckpointerLink, socket.socket], call: Callable[[CheckpointerLink], object]
) -> None:
    """The kernel answers with ECONNRESET or EPIPE then, not with the end of the stream (unix(7))."""
    link, other = ends
    other.close()
    with link, pytest.raises(LinkLost, match="ended in the middle"):
        call(link)


def test_events_before_the_awaited_one_are_passed_on(ends: tuple[CheckpointerLink, socket.socket]) -> None:
    link, other = ends
    passed: list[object] = []
    with link, other:
        other.sendall(b'{"event": "looked", "done": 1, "total": 2}\n{"event": "done", "whole": true}\n')
        assert link.until("done", passed.append)["whole"]
    assert passed == [{"event": "looked", "done": 1, "total": 2}]


def test_abandoning_waits_until_all_is_undone(ends: tuple[CheckpointerLink, socket.socket]) -> None:
    """The checkpointer is notified immediately, and has hung up when the call returns."""
    link, other = ends
    with ThreadPoolExecutor(1) as pool, link:
        waiting = pool.submit(link.abandon)
        with other:
            while other.recv(1 << 16):
                pass
            assert not waiting.done()
            other.sendall(b'{"event": "error", "code": "abandoned", "message": "", "errors": []}\n')
        waiting.result(timeout=60)
