"""A session is frozen when no connection waits for its server, unless that takes long.

Tasks that wait for a child of vfork are found, and a capture is begun when there is none.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.procfs.socket_tables import SocketRow
from holdfast.snapshots import explain
from holdfast.snapshots.checkpointer.criu import standstill
from holdfast.snapshots.checkpointer.criu.standstill import Unaccepted
from holdfast.snapshots.checkpointer.ground import tree
from holdfast.snapshots.checkpointer.ground.freezer import NotFrozen, NotStopping

LISTENER = SocketRow("tcp", "listening", "127.0.0.1", 80, inode=1)
CLIENT = SocketRow("tcp", "established", "127.0.0.1", 4000, "127.0.0.1", 80, inode=2)
WAITS = SocketRow("tcp", "established", "127.0.0.1", 80, "127.0.0.1", 4000, receive_queue=5)
ENDED = SocketRow("tcp", "close_wait", "127.0.0.1", 80, "127.0.0.1", 4000)
BUSY = SocketRow("unix stream", "listening", "/run/busy", inode=7, waiting=(0,))
CLOSED = SocketRow("tcp", "fin_wait2", "127.0.0.1", 80, "127.0.0.1", 4000)  # by its server
CALLS = (58, 56, 435)
# The child waits for a byte, and only then ends. It shares its parent's memory, so it is C.
PARENT = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
static int child(void *input) { char byte; return read(0, &byte, 1) != 1; }
int main(int count, char **words) {
    static char stack[65536];
    write(1, "begun\n", 6);
    clone(child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    write(1, "ended\n", 6);
    return pause();
}
"""


class Group:
    """A freezer that notes what it is asked to do; of its attempts, the first ones fail."""

    def __init__(self, members: tuple[int, ...] = (), failing: int = 0) -> None:
        self.calls = ""
        self._members = members
        self._failing = failing

    def freeze(self) -> None:
        self.calls += "f"
        self._failing -= 1
        if self._failing >= 0:
            raise NotStopping("a process is in an uninterruptible sleep")

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
    """Neither the accepted ones, nor connections of an outside peer, nor closed ones."""
    assert standstill.unaccepted_among(sockets) == found


def test_a_connection_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session runs on in between, so that the server gets on."""
    monkeypatch.setattr(standstill, "PAUSES", (0.0,) * 5)
    monkeypatch.setattr(standstill, "waiting_for_vfork", lambda _: [])
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
    monkeypatch.setattr(standstill, "waiting_for_vfork", lambda _: [])
    group = Group()
    standstill.freeze(group, lambda: Unaccepted(True))
    assert group.calls == "ftftftf"


def test_a_sleep_that_ends_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session runs on until the process has the data that it sleeps for, and is frozen then."""
    monkeypatch.setattr(standstill, "waiting_for_vfork", lambda _: [])
    states = iter(["D", "D", "S"])
    monkeypatch.setattr(tree, "thread_states", lambda _: ["S", next(states)])
    group = Group((os.getpid(),), failing=1)
    standstill.freeze(group, Unaccepted)
    assert (group.calls, next(states, None)) == ("ff", None)


def test_a_process_that_sleeps_on_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal is worth a retry: the check has found no process that always sleeps."""
    monkeypatch.setattr(standstill, "PAUSES", (0.0,) * 2)
    monkeypatch.setattr(standstill, "QUIET", 0.0)
    monkeypatch.setattr(tree, "thread_states", lambda _: ["D"])
    group = Group((os.getpid(),), failing=9)
    with pytest.raises(NotFrozen) as refused:
        standstill.freeze(group, Unaccepted)
    reason = explain.explain([str(refused.value)])
    assert group.calls == "fff"
    assert (reason.kind, reason.passing, reason.pid) == ("stuck", True, os.getpid())


def test_a_machine_too_busy_to_stop_a_session_is_given_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then the capture is refused, although no process sleeps; a later attempt may succeed."""
    monkeypatch.setattr(standstill, "LONGEST", -1.0)
    group = Group((os.getpid(),), failing=9)
    with pytest.raises(NotFrozen) as refused:
        standstill.freeze(group, Unaccepted)
    assert group.calls == "f"
    assert explain.explain([str(refused.value)]).passing


def test_unix_connections_that_always_wait_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """They cannot be captured: the session runs on, and the refusal has their server and is worth a retry."""
    monkeypatch.setattr(standstill, "PAUSES", (0.0,) * 5)
    monkeypatch.setattr(standstill, "ACCEPTING", 3)
    monkeypatch.setattr(standstill, "waiting_for_vfork", lambda _: [])
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
    monkeypatch.setattr(standstill, "waiting_for_vfork", lambda _: [])
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
    """Connections that carry data, and closed ones; CRIU has all others."""
    listener = BUSY._replace(waiting=waiting)
    found = standstill.blocked_listeners([listener, *([client] if client is not None else [])])
    assert found == ([listener] if is_blocked else [])


def test_a_session_is_frozen_while_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reported time of the freeze begins before."""
    monkeypatch.setattr(standstill, "waiting_for_vfork", lambda _: [])
    asked: list[float] = []

    def look() -> Unaccepted:
        asked.append(time.monotonic())
        return Unaccepted()

    assert standstill.freeze(Group(), look) <= asked[0]


@pytest.mark.parametrize(
    ("told", "waits"),
    [
        ("58 0x0 0x0 0x0 0x0 0x0 0x0 0x7ffd 0x7f01\n", True),
        ("56 0x4111 0x0 0x0 0x0 0x0 0x0 0x7ffd 0x7f01\n", True),
        ("56 0x1200011 0x0 0x0 0x0 0x0 0x0 0x7ffd 0x7f01\n", False),
        ("435 0x7ffd 0x58 0x0 0x0 0x0 0x0 0x7ffd 0x7f01\n", True),
        ("0 0x3 0x7ffd 0x1 0x0 0x0 0x0 0x7ffd 0x7f01\n", False),
        ("-1 0x7ffd 0x7f01\n", False),
        ("running\n", False),
        ("56 what\n", False),
        ("", False),
    ],
)
def test_a_tasks_wait_is_reported_by_its_call(told: str, waits: bool) -> None:
    """By number and flags; any other line is ignored."""
    assert standstill.waits_for_vfork(told, CALLS) is waits


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    program = tmp_path / "parent"
    build = ["cc", "-w", "-x", "c", "-o", str(program), "-"]
    subprocess.run(build, input=PARENT.encode(), check=True)
    with subprocess.Popen([program], stdin=-1, stdout=-1) as process:
        yield process
        process.kill()


def test_a_process_that_waits_for_its_child_is_found(parent: subprocess.Popen[bytes]) -> None:
    """While the child has neither ended nor started a program; an ended process does not count."""
    assert parent.stdout is not None
    assert parent.stdin is not None
    assert parent.stdout.readline() == b"begun\n"
    deadline = time.monotonic() + 60
    while not (found := list(standstill.waiting_for_vfork([parent.pid]))):
        assert time.monotonic() < deadline
    assert found == [parent.pid]
    parent.stdin.write(b"x")
    parent.stdin.flush()
    assert parent.stdout.readline() == b"ended\n"
    assert list(standstill.waiting_for_vfork([parent.pid, os.getpid(), 2**22 + 1])) == []


class BearingGroup:
    """A freezer whose tasks wait for a child the first times it is frozen."""

    def __init__(self, unborn: int) -> None:
        self.unborn, self.calls = unborn, ""

    def freeze(self) -> None:
        self.calls += "f"

    def thaw(self) -> None:
        self.calls += "t"

    def members(self) -> tuple[int, ...]:
        return (1, 2)

    def waiting(self, pids: tuple[int, ...]) -> list[int]:
        self.unborn -= 1
        return [2] if self.unborn >= 0 else []


def test_a_session_is_frozen_when_no_child_is_being_born(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs on in between, so that the child gets on."""
    group = BearingGroup(3)
    monkeypatch.setattr(standstill, "waiting_for_vfork", group.waiting)
    standstill.freeze(group, Unaccepted)
    assert group.calls == "ftftftf"


def test_a_child_that_is_never_born_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a bounded number of tries; then the session continues, and the process is named."""
    group = BearingGroup(10**6)
    monkeypatch.setattr(standstill, "waiting_for_vfork", group.waiting)
    monkeypatch.setattr(standstill, "PAUSES", (0.0,) * 5)
    with pytest.raises(NotFrozen, match="does not stop"):
        standstill.freeze(group, Unaccepted)
    assert group.calls == "ft" * 6
