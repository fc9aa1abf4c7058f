"""The rules for which ends are reported, and with which cause."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from holdfast.runtime.guest.pulse.deaths import MAX_WATCHED, MemoryKills, ProcessEnd, Roster
from holdfast.runtime.guest.pulse.process_lineage import Origin, ScannedProcess

SHELL = Origin("shell", "main")
JOB = Origin("command", "a", "make serve", "agent")
LATER = Origin("command", "b", "make test", "agent")


def seen(pid: int, parent: int, start: float = 1.0) -> ScannedProcess:
    return ScannedProcess(pid, parent, pid, 20, start)


class Session:
    """Processes and their origins, as a roster receives them."""

    def __init__(self) -> None:
        self.origins = {20: SHELL}
        self.over = {JOB}
        self.table = {20: seen(20, 1)}
        self.listening: dict[int, tuple[int, ...]] = {}
        self.twins: set[int] = set()
        self.roster = Roster()

    def add(self, pid: int, parent: int, origin: Origin, start: float = 1.0) -> None:
        self.table[pid] = seen(pid, parent, start)
        self.origins[pid] = origin

    def look(self) -> tuple[list[int], list[int]]:
        new, gone = self.roster.update(
            self.table.values(),
            self.origins.get,
            lambda origin: origin not in self.over,
            self.listening,
            self.twins.__contains__,
        )
        return [each.pid for each in new], [each.pid for each in gone]


@pytest.fixture
def session() -> Session:
    return Session()


def test_a_process_that_outlived_its_command_is_watched(session: Session) -> None:
    """Processes that a running command starts and ends are its own affair; so are those without an origin."""
    session.add(30, 20, JOB)
    session.add(31, 20, LATER)
    session.add(32, 1, Origin("supervisor"))
    assert session.look() == ([30], [])
    session.over.add(LATER)
    assert session.look() == ([31], [])


def test_only_the_top_of_a_remaining_tree_is_watched(session: Session) -> None:
    """A background `make -j` starts hundreds of compilers; their ends are not reported."""
    session.add(30, 20, JOB)
    for pid in range(31, 400):
        session.add(pid, 30, JOB)
    assert session.look() == ([30], [])


def test_a_worker_that_listens_is_watched(session: Session) -> None:
    """Its clients will miss its port."""
    session.add(30, 20, JOB)
    session.add(31, 30, JOB)
    session.listening = {31: (8000,)}
    assert session.look() == ([30, 31], [])
    assert session.roster.watched[31].ports == (8000,)
    session.listening = {}  # it ends, and its socket is gone first
    session.look()
    assert session.roster.watched[31].ports == (8000,)


def test_a_twin_is_not_watched(session: Session) -> None:
    """A capture copies a process that was left running, and ends the copy: that is not an event."""
    session.add(30, 20, JOB)
    session.add(31, 1, JOB)
    session.twins = {31}
    session.listening = {31: (8000,)}
    assert session.look() == ([30], [])
    del session.table[31]
    assert session.look() == ([], [])


def test_an_orphan_is_the_top_of_a_remaining_tree(session: Session) -> None:
    """After its parent has ended it is watched in its place."""
    session.add(30, 20, JOB)
    session.add(31, 30, JOB)
    assert session.look() == ([30], [])
    del session.table[30], session.origins[30]
    session.add(31, 1, JOB)
    assert session.look() == ([31], [30])


def test_a_dead_process_is_reported_until_it_is_removed(session: Session) -> None:
    """The way it ended can become known later. A pid that was given out again is another process."""
    session.add(30, 20, JOB)
    session.look()
    session.add(30, 20, LATER, start=9.0)
    assert session.look() == ([], [30])
    assert session.look() == ([], [30])
    assert session.roster.remove(30) is not None
    assert session.roster.remove(30) is None


def test_a_restore_is_not_the_end_of_anything(session: Session) -> None:
    """The same pids have other start times then."""
    session.add(30, 20, JOB)
    session.look()
    session.add(30, 20, JOB, start=7.0)
    session.roster.moved(session.table.values())
    assert session.look() == ([], [])


def test_the_roster_is_bounded(session: Session) -> None:
    """A session can start any number of processes."""
    for pid in range(30, 30 + 2 * MAX_WATCHED):
        session.add(pid, 20, JOB)
    session.look()
    assert len(session.roster.watched) == MAX_WATCHED


@pytest.mark.parametrize(
    ("leave", "end"),
    [
        (lambda: os._exit(3), ProcessEnd(exit_code=3)),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), ProcessEnd(signal=signal.SIGTERM)),
    ],
)
def test_an_end_is_the_same_however_it_is_reported(leave: Callable[[], None], end: ProcessEnd) -> None:
    """waitid, a wait status and Python's return code give the same result."""
    pid = os.fork()
    if pid == 0:
        leave()
    info = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert info is not None
    _, status = os.waitpid(pid, 0)
    assert ProcessEnd.of_child(info.si_code, info.si_status) == end
    assert ProcessEnd.of_status(status) == end
    assert ProcessEnd.of_returncode(os.waitstatus_to_exitcode(status)) == end


KILLED = ProcessEnd(signal=signal.SIGKILL)


def test_causes() -> None:
    """A SIGKILL is an OOM kill if the kernel counted one, each once and not forever."""
    kills = MemoryKills(3)
    assert kills.cause(ProcessEnd(exit_code=0), 0.0) == "exited"
    assert kills.cause(ProcessEnd(signal=15), 0.0) == "signal"
    assert kills.cause(ProcessEnd(), 0.0) == "unknown"
    assert kills.cause(KILLED, 0.0) == "signal"
    assert kills.counted(4, 1.0) == 1
    assert kills.cause(ProcessEnd(signal=15), 1.0) == "signal"
    assert kills.cause(KILLED, 1.0) == "oom"
    assert kills.cause(KILLED, 1.0) == "signal"
    assert kills.counted(5, 2.0) == 1
    assert kills.cause(KILLED, 60.0) == "signal"


def test_kills_of_what_a_capture_made_explain_nothing() -> None:
    """The end of a program at that time has its own cause, and a restored session none of these kills."""
    kills = MemoryKills(3)
    assert kills.counted(5, 1.0) == 2
    kills.excuse(1)
    assert kills.of_captures == 1
    assert [kills.cause(KILLED, 1.0), kills.cause(KILLED, 1.0)] == ["oom", "signal"]
    assert kills.counted(5, 2.0) == 0
    assert kills.of_captures == 1
    assert kills.counted(0, 3.0) == 0
    assert kills.of_captures == 0


def test_counts_can_start_over() -> None:
    """A restored session is in another cgroup; some machines count nothing."""
    kills = MemoryKills(3)
    assert kills.counted(0, 1.0) == 0
    assert kills.counted(2, 1.0) == 2
    assert kills.counted(None, 1.0) == 0
    assert kills.counted(7, 1.0) == 0
    assert MemoryKills(None).counted(1, 1.0) == 0
