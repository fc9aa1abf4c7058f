"""Inspection of programs that a shell starts, with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from holdfast.procfs.process_stat import Stat
from holdfast.runtime.guest.pulse import access
from holdfast.runtime.guest.shells.process_progress import Group, group_state, interrupt_waits

PIPE = ("bash", "-c", "set -m; sleep 600 | sleep 600; exit 0")


@pytest.fixture
def shell() -> Iterator[subprocess.Popen[bytes]]:
    """Yield a shell that waits for two programs in a process group of their own."""
    with subprocess.Popen(PIPE) as process:
        yield process
        programs = [one.pid for one in _children(process.pid)]
        process.kill()
        for pid in programs:
            os.kill(pid, signal.SIGKILL)


def _children(shell: int) -> list[Stat]:
    found = (access.stat(pid) for pid in access.numbers("/proc"))
    return [status for status in found if status and status.parent == shell and not status.ended]


def _programs(shell: int) -> list[Stat]:
    """Return the programs of the pipe, as soon as both are there."""
    while True:
        found = _children(shell)
        if len(found) == 2 and all(program.name == "sleep" for program in found):
            return found


def test_a_program_is_found_without_reading_all_processes(
    shell: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there are many processes, one of a millisecond is gone before all have been read."""
    programs = _programs(shell.pid)
    monkeypatch.setattr(access, "numbers", lambda folder: pytest.fail(f"reads {folder}"))

    assert {program.group for program in programs} == {programs[0].pid}
    assert group_state(programs[0].pid, shell.pid) is Group.RUNS


def test_a_group_whose_first_program_is_gone_still_runs(shell: subprocess.Popen[bytes]) -> None:
    """The others are found."""
    group = _programs(shell.pid)[0].group
    os.kill(group, signal.SIGKILL)
    while len(_children(shell.pid)) == 2:
        pass
    assert group_state(group, shell.pid) is Group.RUNS
    os.kill(_children(shell.pid)[0].pid, signal.SIGKILL)
    shell.wait()
    assert group_state(group, shell.pid) is Group.ENDED


def test_a_signal_to_a_process_that_does_not_run_waits() -> None:
    """For a stopped process, as for one that gets no processor."""
    with subprocess.Popen(["sleep", "600"], process_group=0) as program:
        program.send_signal(signal.SIGSTOP)
        while (status := access.stat(program.pid)) is None or status.state != "T":
            pass
        assert not interrupt_waits(program.pid)
        program.send_signal(signal.SIGINT)
        assert interrupt_waits(program.pid)
        program.send_signal(signal.SIGCONT)
        assert program.wait() == -signal.SIGINT
