"""A session is frozen when no connection waits for its server, unless that takes long."""

from __future__ import annotations

import time

import pytest

from holdfast.procfs.socket_tables import SocketRow
from holdfast.snapshots.checkpointer import standstill, unaccepted, unborn

LISTENER = SocketRow("tcp", "listening", "127.0.0.1", 80, inode=1)
CLIENT = SocketRow("tcp", "established", "127.0.0.1", 4000, "127.0.0.1", 80, inode=2)
WAITS = SocketRow("tcp", "established", "127.0.0.1", 80, "127.0.0.1", 4000, receive_queue=5)
ENDED = SocketRow("tcp", "close_wait", "127.0.0.1", 80, "127.0.0.1", 4000)
CLOSED = SocketRow("tcp", "fin_wait2", "127.0.0.1", 80, "127.0.0.1", 4000)  # by its server


class Group:
    """A freezer that notes what it is asked to do."""

    def __init__(self) -> None:
        self.calls = ""

    def freeze(self) -> None:
        self.calls += "f"

    def thaw(self) -> None:
        self.calls += "t"

    def members(self) -> tuple[int, ...]:
        return ()


@pytest.mark.parametrize(
    ("sockets", "found"),
    [
        ([LISTENER, CLIENT, WAITS], [WAITS]),
        ([LISTENER, CLIENT, ENDED], [ENDED]),  # its client has shut down what it writes
        ([LISTENER, WAITS], []),  # from outside: a copy does not have it in any case
        (
            [CLIENT, SocketRow("tcp", "established", "127.0.0.1", 80, "127.0.0.1", 4000, inode=3)],
            [],
        ),  # accepted
        ([CLIENT, CLOSED], []),
    ],
)
def test_connections_not_yet_accepted_are_found(sockets: list[SocketRow], found: list[SocketRow]) -> None:
    """Neither those that a program has, nor those of a peer outside, nor those that were closed."""
    assert unaccepted.among(sockets) == found


def test_a_connection_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session runs on in between, so that the server gets on."""
    monkeypatch.setattr(standstill, "PAUSES", (0.0,) * 5)
    monkeypatch.setattr(unborn, "waiting", lambda _: [])
    group, looks = Group(), iter([True, True, False])
    standstill.freeze(group, lambda: next(looks))
    assert group.calls == "ftftf"


def test_a_server_that_accepts_nothing_is_not_in_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bounded number of times; then the session is frozen all the same."""
    monkeypatch.setattr(standstill, "PAUSES", (0.0,) * 5)
    monkeypatch.setattr(standstill, "ACCEPTING", 3)
    monkeypatch.setattr(unborn, "waiting", lambda _: [])
    group = Group()
    standstill.freeze(group, lambda: True)
    assert group.calls == "ftftftf"


def test_a_session_is_frozen_while_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reported time of the freeze begins before."""
    monkeypatch.setattr(unborn, "waiting", lambda _: [])
    asked: list[float] = []

    def look() -> bool:
        asked.append(time.monotonic())
        return False

    assert standstill.freeze(Group(), look) <= asked[0]
