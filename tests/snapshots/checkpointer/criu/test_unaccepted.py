"""A session is frozen when no connection waits for its server, unless that takes long."""

from __future__ import annotations

import os
import socket
import time

import pytest

from holdfast.procfs.socket_tables import SocketRow
from holdfast.snapshots import explain
from holdfast.snapshots.checkpointer.criu import standstill, unaccepted, unborn
from holdfast.snapshots.checkpointer.criu.unaccepted import Unaccepted
from holdfast.snapshots.checkpointer.ground.freezer import NotFrozen

LISTENER = SocketRow("tcp", "listening", "127.0.0.1", 80, inode=1)
CLIENT = SocketRow("tcp", "established", "127.0.0.1", 4000, "127.0.0.1", 80, inode=2)
WAITS = SocketRow("tcp", "established", "127.0.0.1", 80, "127.0.0.1", 4000, receive_queue=5)
ENDED = SocketRow("tcp", "close_wait", "127.0.0.1", 80, "127.0.0.1", 4000)
BUSY = SocketRow("unix stream", "listening", "/run/busy", inode=7, waiting=(0,))
CLOSED = SocketRow("tcp", "fin_wait2", "127.0.0.1", 80, "127.0.0.1", 4000)  # by its server


class Group:
    """A freezer that notes what it is asked to do."""

    def __init__(self, members: tuple[int, ...] = ()) -> None:
        self.calls = ""
        self._members = members

    def freeze(self) -> None:
        self.calls += "f"

    def thaw(self) -> None:
        self.calls += "t"

    def members(self) -> tuple[int, ...]:
        return self._members


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
    busy = Unaccepted(False, (BUSY,))
    # Of the last ones, one is from while it runs: frozen again at the first instant that is worth it.
    group, looks = Group(), iter([Unaccepted(True), busy, busy, busy, Unaccepted(), Unaccepted()])
    standstill.freeze(group, lambda: next(looks))
    assert group.calls == "ftftf"
    assert next(looks, None) is None


def test_a_server_that_accepts_nothing_is_not_in_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bounded number of times; then the session is frozen all the same."""
    monkeypatch.setattr(standstill, "PAUSES", (0.0,) * 5)
    monkeypatch.setattr(standstill, "ACCEPTING", 3)
    monkeypatch.setattr(unborn, "waiting", lambda _: [])
    group = Group()
    standstill.freeze(group, lambda: Unaccepted(True))
    assert group.calls == "ftftftf"


def test_unix_connections_that_always_wait_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """They cannot be captured: the session runs on, and the refusal has their server and is worth a retry."""
    monkeypatch.setattr(standstill, "PAUSES", (0.0,) * 5)
    monkeypatch.setattr(standstill, "ACCEPTING", 3)
    monkeypatch.setattr(unborn, "waiting", lambda _: [])
    monkeypatch.setattr(standstill, "QUIET", 0.0)
    with socket.socket(socket.AF_UNIX) as server:
        busy = BUSY._replace(inode=os.fstat(server.fileno()).st_ino)
        group = Group((os.getpid(),))
        with pytest.raises(NotFrozen) as refused:
            standstill.freeze(group, lambda: Unaccepted(False, (busy,)))
        assert group.calls == "ft" * 6
        reason = explain.explain([str(refused.value)])
        assert (reason.kind, reason.passing, reason.fd) == ("unix_waiting", True, server.fileno())
        assert reason.pid
        assert "/run/busy" in reason.text


def test_a_busy_machine_does_not_prolong_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor has stopped listening, and waits for ten seconds until the capture has begun."""
    monkeypatch.setattr(standstill, "LONGEST", -1.0)
    monkeypatch.setattr(unborn, "waiting", lambda _: [])
    group = Group()
    with pytest.raises(NotFrozen):
        standstill.freeze(group, lambda: Unaccepted(False, (BUSY,)))
    assert group.calls == "ft"
    standstill.freeze(group, lambda: Unaccepted(True))
    assert group.calls == "ftf"


@pytest.mark.parametrize(
    ("client", "waiting", "is_blocked"),
    [
        (None, (), False),
        (None, (0,), True),  # its client is gone
        (SocketRow("unix stream", "established", inode=8), (8,), False),
        (SocketRow("unix stream", "established", inode=8, send_queue=3), (8,), True),
        (SocketRow("unix stream", "established", inode=9, send_queue=3), (8,), False),
    ],
)
def test_unix_connections_that_no_capture_has_are_found(
    client: SocketRow | None, waiting: tuple[int, ...], is_blocked: bool
) -> None:
    """Those that carry data, and those that were closed; CRIU has all others."""
    listener = BUSY._replace(waiting=waiting)
    found = unaccepted.blocked([listener, *([client] if client is not None else [])])
    assert found == ([listener] if is_blocked else [])


def test_a_session_is_frozen_while_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reported time of the freeze begins before."""
    monkeypatch.setattr(unborn, "waiting", lambda _: [])
    asked: list[float] = []

    def look() -> Unaccepted:
        asked.append(time.monotonic())
        return Unaccepted()

    assert standstill.freeze(Group(), look) <= asked[0]
