"""The rules by which a process belongs to a command, a cell or a job."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.runtime.guest.pulse.process_lineage import (
    SUPERVISOR,
    Origin,
    ProcessLineage,
    ScannedProcess,
    short,
)

SUPER, SHELL, KERNEL = 10, 20, 30
MAIN = Origin("shell", "main")
MIND = Origin("kernel", "main")
A = Origin("command", "a", "make serve", "agent")
B = Origin("command", "b", "true", "agent")
BASE = [
    ScannedProcess(SUPER, 1, SUPER, SUPER, 1.0),
    ScannedProcess(SHELL, SUPER, SHELL, SHELL, 1.1),
    ScannedProcess(KERNEL, SUPER, KERNEL, KERNEL, 1.2),
]


@pytest.fixture
def lineage() -> ProcessLineage:
    known = ProcessLineage()
    known.own(SUPER, SUPERVISOR)
    known.own(SHELL, MAIN)
    known.own(KERNEL, MIND)
    known.take(BASE, nothing)
    return known


def nothing(_: int) -> dict[str, str]:
    return {}


def marked(**marks: str) -> Any:
    return lambda _: marks


def child(pid: int, start: float, parent: int = SHELL, **other: int) -> ScannedProcess:
    return ScannedProcess(pid, parent, other.get("group", pid), other.get("session", SHELL), start)


def test_a_child_of_the_shell_belongs_to_the_command_that_ran(lineage: ProcessLineage) -> None:
    """The time of its start decides, even if it is seen after the command's end."""
    lineage.begin(MAIN, A, 2.0, 50)
    lineage.end(MAIN, "a", 3.0, 60)
    lineage.take([*BASE, child(55, 2.5), child(70, 9.0)], nothing)
    assert lineage.find(55) == A
    assert lineage.find(70) == MAIN


def test_the_pid_distinguishes_commands_of_one_tick(lineage: ProcessLineage) -> None:
    """Start times are in hundredths of a second; two commands fit into one."""
    lineage.begin(MAIN, A, 2.001, 50)
    lineage.end(MAIN, "a", 2.003)
    lineage.begin(MAIN, B, 2.004, 51)
    lineage.end(MAIN, "b", 2.006, 53)
    lineage.take([*BASE, child(51, 2.0), child(52, 2.0)], nothing)
    assert (lineage.find(51), lineage.find(52)) == (A, B)


def test_pids_can_start_over(lineage: ProcessLineage) -> None:
    """A pid below the window's first is in it if the pids wrapped around in the meantime."""
    lineage.begin(MAIN, B, 1.999, 32000)
    lineage.end(MAIN, "b", 2.0, 32760)
    lineage.begin(MAIN, A, 2.0, 32760)
    lineage.end(MAIN, "a", 2.001, 310)
    lineage.take([*BASE, child(305, 2.0)], nothing)
    assert lineage.find(305) == A


def test_origin_is_inherited(lineage: ProcessLineage) -> None:
    """A process that a background job starts hours later belongs to the job's command, not to the present
    one.
    """
    lineage.begin(MAIN, A, 2.0, 50)
    lineage.take([*BASE, child(51, 2.0)], nothing)
    lineage.end(MAIN, "a", 3.0, 51)
    lineage.begin(MAIN, B, 9000.0, 90)
    lineage.take([*BASE, child(51, 2.0), child(91, 9000.5, parent=51, group=51)], nothing)
    assert lineage.find(91) == A


def test_an_adopted_orphan_keeps_its_origin(lineage: ProcessLineage) -> None:
    """The origin determined at first sight holds, even if the parent changes later."""
    lineage.begin(MAIN, A, 2.0, 50)
    lineage.take([*BASE, child(51, 2.0), child(52, 2.1, parent=51)], nothing)
    lineage.take([*BASE, child(52, 2.1, parent=SUPER)], nothing)
    assert lineage.find(52) == A


def test_an_orphan_belongs_to_its_group_and_session(lineage: ProcessLineage) -> None:
    """A process whose parent had ended at first sight is identified by its group and session."""
    lineage.begin(MAIN, A, 2.0, 50)
    job = child(51, 2.0)
    daemon = child(52, 2.1, parent=51, session=52)
    lineage.take([*BASE, job, daemon], nothing)
    lineage.end(MAIN, "a", 3.0, 52)
    new = [child(60, 7.0, parent=SUPER, group=51), child(61, 7.0, parent=SUPER, session=52)]
    lineage.take([*BASE, job, daemon, *new], nothing)
    assert lineage.find(60) == lineage.find(61) == A


def test_a_daemon_is_known_by_its_environment_and_its_time(lineage: ProcessLineage) -> None:
    """It left its parents, group and session before any scan saw it."""
    lineage.begin(MAIN, A, 2.0, 50)
    lineage.end(MAIN, "a", 3.0, 60)
    daemon = child(55, 2.5, parent=SUPER, session=55)
    late = child(70, 9.0, parent=SUPER, session=70)
    lineage.take([*BASE, daemon, late], marked(HOLDFAST_SHELL="main"))
    assert lineage.find(55) == A
    assert lineage.find(70) == MAIN


def test_a_job_is_known_by_its_environment(lineage: ProcessLineage) -> None:
    """A job does not have a time window: every process that carries its marker is the job's."""
    job = Origin("job", "t1", "sleep 9", "agent")
    lineage.own(80, job)
    lineage.take([*BASE, child(81, 2.0, parent=SUPER, session=81)], marked(HOLDFAST_JOB="t1"))
    assert lineage.find(81) == job


def test_without_a_marker_the_only_command_of_that_time_owns_it(lineage: ProcessLineage) -> None:
    """An environment can have been cleared. If more than one command ran, the origin is unknown."""
    lineage.begin(MAIN, A, 2.0, 50)
    lineage.take([*BASE, child(51, 2.5, parent=SUPER, session=51)], nothing)
    lineage.begin(MIND, Origin("cell", "c"), 4.0, 60)
    assert lineage.find(51) == A
    lineage.take([*BASE, child(61, 4.5, parent=SUPER, session=61)], nothing)
    assert lineage.find(61) == SUPERVISOR


def test_a_process_placed_from_outside_belongs_to_no_command(lineage: ProcessLineage) -> None:
    """The engine can start a process in the container; children of another supervisor have the same
    markers.
    """
    lineage.begin(MAIN, A, 2.0, 50)
    strangers = [child(51, 2.5, parent=0, session=51), child(52, 2.5, parent=5, session=5)]
    lineage.take([*BASE, *strangers], marked(HOLDFAST_SHELL="main"))
    assert lineage.find(51) == lineage.find(52) == SUPERVISOR


def test_a_reused_pid_is_another_process(lineage: ProcessLineage) -> None:
    """The start times differ."""
    lineage.begin(MAIN, A, 2.0, 50)
    lineage.take([*BASE, child(51, 2.0)], nothing)
    lineage.end(MAIN, "a", 3.0, 51)
    lineage.take([*BASE, child(51, 5.0)], nothing)
    assert lineage.find(51) == MAIN


def test_a_restore_changes_times_but_no_origin(lineage: ProcessLineage) -> None:
    """All processes have new start times, on a different boot clock; running programs continue to own their
    children."""
    lineage.begin(MAIN, A, 2000.0, 50)
    lineage.take([*BASE, child(51, 2000.0)], nothing)
    there = [
        ScannedProcess(each.pid, each.parent, each.group, each.session, 7.0) for each in [*BASE, child(51, 0)]
    ]
    lineage.moved(there)
    lineage.take([*there, child(52, 8.0)], nothing)
    assert lineage.find(51) == lineage.find(52) == A
    assert lineage.find(SHELL) == MAIN
    lineage.end(MAIN, "a", 9.0, 52)
    lineage.take([*there, child(53, 12.0)], nothing)
    assert lineage.find(53) == MAIN


def test_ended_processes_are_forgotten(lineage: ProcessLineage) -> None:
    """Memory is bounded by the processes that are there."""
    lineage.begin(MAIN, A, 2.0, 50)
    for pid in range(51, 5000):
        lineage.take([*BASE, child(pid, 2.0, session=pid)], nothing)
    assert lineage.find(51) is None
    assert len(lineage._origins) == 4
    assert len(lineage._groups) <= 5


def test_a_command_is_shortened_to_its_first_line() -> None:
    """It is for a line on a screen."""
    assert short(" echo a \n") == "echo a"
    assert short("echo a\necho b") == "echo a…"
    assert len(short("x" * 900)) == 120
