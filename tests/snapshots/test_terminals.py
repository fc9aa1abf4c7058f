"""Terminals whose foreground process group ended at the moment of the capture."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.snapshots.checkpointer.terminals import adapt


@dataclass
class Terminal:
    """As much of CRIU's tty_info_entry as is looked at."""

    sid: int
    pgrp: int


@dataclass
class Process:
    """As much of CRIU's pstree_entry as is looked at."""

    pgid: int


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
    """A PTY that is nobody's controlling terminal has no foreground."""
    terminal = Terminal(sid=0, pgrp=0)

    assert adapt([terminal], []) == 0
