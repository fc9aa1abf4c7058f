"""Whose session can be made again, from trees made by hand."""

from __future__ import annotations

import pytest

from holdfast.snapshots.checkpointer.ancestry import Task, lost

ROOT = Task(300, 0, 300)
SHELL = Task(302, 300, 302)
REAPER = Task(310, 302, 302)


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ([], set()),
        ([SHELL, REAPER], set()),
        ([SHELL, Task(321, 300, 320)], set()),
        ([SHELL, Task(321, 300, 302)], set()),
        ([SHELL, Task(321, 300, 320), Task(322, 321, 320)], set()),
        ([SHELL, Task(311, 302, 311), Task(312, 311, 302)], set()),
        ([SHELL, REAPER, Task(321, 310, 320)], {321}),
        ([SHELL, REAPER, Task(320, 310, 320), Task(321, 310, 320)], {321}),
        ([SHELL, REAPER, Task(321, 310, 320), Task(322, 321, 320)], {321}),
        ([SHELL, REAPER, Task(321, 310, 321), Task(322, 321, 320)], {322}),
        ([SHELL, Task(311, 302, 311), Task(312, 311, 302), Task(313, 311, 305)], {313}),
    ],
    ids=[
        "the root alone",
        "all in their parents' sessions",
        "a daemon whose leader ended, adopted by the root",
        "an orphan of a shell that goes on",
        "and its child",
        "a child from before its parent began a session",
        "a daemon whose leader ended, adopted by another",
        "an orphan of a leader that goes on, adopted by another",
        "only the first of a family",
        "a daemon that began a session of its own after its child was born",
        "children from two sessions before its own",
    ],
)
def test_who_cannot_be_placed(tasks: list[Task], expected: set[int]) -> None:
    """CRIU finds no leader above it, or two sessions that one ancestor would be born into."""
    assert lost([ROOT, *tasks]) == expected


def test_no_tree_has_no_orphans() -> None:
    """Nor does a circle keep it busy."""
    assert lost([]) == set()
    assert lost([ROOT, Task(1, 2, 9), Task(2, 1, 9)]) == set()
