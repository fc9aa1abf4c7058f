"""Inspection of programs that a shell starts, with real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from holdfast.procfs.process_stat import Stat
from holdfast.runtime.guest.pulse import access
from holdfast.runtime.guest.shells.process_progress import (
    COPY_LOOKS,
    LOOKS,
    QUIET,
    GroupProgress,
    InterruptDelivery,
    group_state,
    interrupt_waits,
)

PIPE = ("bash", "-c", "set -m; sleep 600 | sleep 600; exit 0")
SHELL = 1
COPY = 8
"""A copy of the shell that is about to become a program."""
ENDED = 9
"""A program that ended and that the shell has not noticed yet."""


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
    """Where there are many processes, one that lives a millisecond has ended before all have been read."""
    programs = _programs(shell.pid)
    monkeypatch.setattr(access, "numbers", lambda folder: pytest.fail(f"reads {folder}"))

    assert {program.group for program in programs} == {programs[0].pid}
    assert group_state(programs[0].pid, shell.pid) is GroupProgress.RUNS


def test_a_group_without_its_first_program_still_runs(shell: subprocess.Popen[bytes]) -> None:
    """The others are found."""
    group = _programs(shell.pid)[0].group
    os.kill(group, signal.SIGKILL)
    while len(_children(shell.pid)) == 2:
        pass
    assert group_state(group, shell.pid) is GroupProgress.RUNS
    os.kill(_children(shell.pid)[0].pid, signal.SIGKILL)
    shell.wait()
    assert group_state(group, shell.pid) is GroupProgress.ENDED


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


class Scene:
    """A terminal whose foreground group changes from look to look, and a clock that only moves on command."""

    pid = SHELL

    def __init__(self, groups: list[int]) -> None:
        self.groups = groups
        self.hit: list[int] = []
        self.waiting: set[int] = set()
        """Looks at which the signal still waits for the program."""
        self.copies: dict[int, int] = {}
        """The look at which a copy of the shell is a program."""
        self.due: list[Callable[[], object]] = []
        self.at = 0

    def foreground(self) -> int:
        return self.groups[min(self.at, len(self.groups) - 1)]

    def signal_group(self, group: int, number: int) -> None:
        assert number == signal.SIGINT
        self.hit.append(group)

    def state(self, group: int, _shell: int) -> GroupProgress:
        if self.at < self.copies.get(group, 0):
            return GroupProgress.BEING_STARTED
        return {ENDED: GroupProgress.ENDED, COPY: GroupProgress.BEING_STARTED}.get(group, GroupProgress.RUNS)

    def waits(self, _group: int) -> bool:
        return self.at in self.waiting

    def call_later(self, _delay: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        self.due.append(callback)
        return cast("asyncio.TimerHandle", None)

    def play(self) -> int:
        """Pursue until there are no more looks or the command, as long as the script, is over."""
        runs, begun = lambda: self.at < len(self.groups), lambda: True
        InterruptDelivery(self, self, runs, begun, self.state, self.waits).begin()
        looks = 0
        while self.due:
            self.at += 1
            looks += 1
            self.due.pop()()
        return looks


@pytest.mark.parametrize(
    ("groups", "hit"),
    [
        ([5, 5, 5, 5, 5, 6], [5]),
        ([ENDED, ENDED, ENDED, 6, 6], [6]),
        ([5, SHELL, SHELL], [5]),
        ([COPY, COPY, 5, 5, 5], [5]),
        ([SHELL, SHELL, 5, 5, 5], [5]),
        ([SHELL] * QUIET, [SHELL]),
        ([5, SHELL, 6, SHELL, 7], [5, 6, 7]),
    ],
    ids=[
        "continues because it wants to",
        "ended",
        "found the shell",
        "copy",
        "was started",
        "the shell",
        "loop",
    ],
)
def test_each_program_is_interrupted_once(groups: list[int], hit: list[int]) -> None:
    """The signal is repeated only for programs that did not get it."""
    scene = Scene(groups)
    scene.play()
    assert scene.hit == hit


def test_a_program_that_could_not_run_has_not_settled() -> None:
    """On a busy machine it can end on its own before it takes the signal; then the next one gets it."""
    scene = Scene([5] * 12 + [6, 6])
    scene.waiting = set(range(12))
    scene.play()
    assert scene.hit == [5, 6]


def test_a_copy_that_was_taken_for_a_program_is_one_later() -> None:
    """The program that a signalled copy became has not received the signal; it gets it once."""
    scene = Scene([5] * (COPY_LOOKS + 8))
    scene.copies = {5: COPY_LOOKS + 2}
    scene.play()
    assert scene.hit == [5, 5]


def test_the_search_gives_up() -> None:
    """A command that continues in the shell itself is not pursued forever."""
    assert Scene([SHELL] * 1000).play() == LOOKS - 1
