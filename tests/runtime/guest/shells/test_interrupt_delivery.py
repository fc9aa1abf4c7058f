"""How often a command is interrupted, with a terminal that follows a script."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import cast

import pytest

from holdfast.runtime.guest.shells.interrupt_delivery import COPY_LOOKS, LOOKS, QUIET, Pursuit
from holdfast.runtime.guest.shells.process_progress import Group

SHELL = 1
COPY = 8
"""A copy of the shell that is about to become a program."""
ENDED = 9
"""A program that ended and that the shell has not noticed yet."""


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

    def state(self, group: int, _shell: int) -> Group:
        if self.at < self.copies.get(group, 0):
            return Group.BEING_STARTED
        return {ENDED: Group.ENDED, COPY: Group.BEING_STARTED}.get(group, Group.RUNS)

    def waits(self, _group: int) -> bool:
        return self.at in self.waiting

    def call_later(self, _delay: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        self.due.append(callback)
        return cast("asyncio.TimerHandle", None)

    def play(self) -> int:
        """Pursue until there are no more looks or the command, as long as the script, is over."""
        runs, begun = lambda: self.at < len(self.groups), lambda: True
        Pursuit(self, self, runs, begun, self.state, self.waits).begin()
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
    """On a busy machine it may end on its own before it takes the signal; then the next one gets it."""
    scene = Scene([5] * 12 + [6, 6])
    scene.waiting = set(range(12))
    scene.play()
    assert scene.hit == [5, 6]


def test_a_copy_that_was_taken_for_a_program_is_one_later() -> None:
    """The program that a signalled copy became has not got the signal; it gets it once."""
    scene = Scene([5] * (COPY_LOOKS + 8))
    scene.copies = {5: COPY_LOOKS + 2}
    scene.play()
    assert scene.hit == [5, 5]


def test_it_gives_up() -> None:
    """A command that continues in the shell itself is not pursued forever."""
    assert Scene([SHELL] * 1000).play() == LOOKS - 1
