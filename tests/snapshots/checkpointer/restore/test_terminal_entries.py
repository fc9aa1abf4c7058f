"""What becomes of terminals in a copy."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

from holdfast.snapshots.checkpointer.restore.terminal_entries import adapt, lengthen, order, plan


@dataclass
class Terminal:
    """As much of CRIU's tty_info_entry as is looked at."""

    sid: int
    pgrp: int


@dataclass
class Process:
    """As much of CRIU's pstree_entry as is looked at."""

    pgid: int
    pid: int = 0
    sid: int = 0


class Entry(SimpleNamespace):
    """One of CRIU's messages: what it has not been given, it has not."""

    def HasField(self, name: str) -> bool:  # noqa: N802 - as protobuf calls it
        return hasattr(self, name)


@dataclass
class Master:
    """The master of a terminal and the special file it was opened by."""

    index: int
    id: int
    name: str = "/dev/ptmx"
    entries: list[Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        tty = SimpleNamespace(tty_info_id=2 * self.index + 1, regf_id=self.id + 1)
        self.entries = [
            Entry(id=self.id, tty=tty),
            Entry(id=self.id + 1, reg=SimpleNamespace(name=self.name)),
        ]


def test_a_group_without_members_is_replaced() -> None:
    """The leader of the session gets the terminal, as it would have a moment later."""
    terminal = Terminal(sid=302, pgrp=663)

    assert adapt([terminal], [Process(301), Process(302)]) == 1
    assert terminal.pgrp == 302


def test_a_living_group_stays_in_the_foreground() -> None:
    """A job that runs keeps the terminal."""
    terminal = Terminal(sid=302, pgrp=400)

    assert adapt([terminal], [Process(302), Process(400)]) == 0
    assert terminal.pgrp == 400


def test_a_terminal_of_no_session_is_left_alone() -> None:
    """A PTY that controls no session has no foreground."""
    terminal = Terminal(sid=0, pgrp=0)

    assert adapt([terminal], []) == 0


def test_terminals_are_made_before_their_sessions() -> None:
    """In the order of the index, each with the session that has it, if its leader lives."""
    masters = [Master(4, 10), Master(0, 20), Master(2, 30)]
    infos = [Entry(sid=sid, pty=SimpleNamespace(index=index)) for index, sid in ((4, 302), (0, 0), (2, 700))]
    processes = [Process(302, pid=302, sid=302), Process(702, pid=702, sid=700)]
    slave = [
        Entry(id=40, tty=SimpleNamespace(tty_info_id=8, regf_id=41)),
        Entry(id=41, reg=SimpleNamespace(name="/dev/pts/4")),
    ]
    files = [entry for master in masters for entry in master.entries] + slave

    assert plan(files, infos, processes) == "0:0 2:0 4:302"
    assert [entry.reg.name for entry in files if entry.HasField("reg")] == [
        "/dev/holdfast-ptmx-4",
        "/dev/holdfast-ptmx-0",
        "/dev/holdfast-ptmx-2",
        "/dev/pts/4",
    ]


def test_a_queue_longer_than_criu_keeps_is_put_together() -> None:
    """Each with its own rest; most have none."""
    queues = [SimpleNamespace(tty_id=9, data=b"first"), SimpleNamespace(tty_id=8, data=b"typed")]

    lengthen(queues, {9: b" and the rest", 11: b"of no terminal"})

    assert [queue.data for queue in queues] == [b"first and the rest", b"typed"]


def test_a_queue_is_lengthened_once_however_often_images_name_it() -> None:
    """A small image must not ask for memory many times over."""
    queues = [SimpleNamespace(tty_id=3, data=b"a") for _ in range(3)]
    lengthen(queues, {3: b"rest"})

    assert [one.data for one in queues] == [b"arest", b"a", b"a"]


def test_masters_come_before_all_slave_ends() -> None:
    """Of two that CRIU joins, one is the master then; the rest keeps its order."""
    ends = [Entry(id=number) for number in (4, 5, 0, 1)]
    order(ends)
    assert [one.id for one in ends] == [5, 1, 4, 0]
