"""Whose session can be made again, and how, from trees made by hand."""

from __future__ import annotations

import pytest

from holdfast.snapshots.checkpointer.ancestry import MOST, Birth, Task, lost, plan, spelled

ROOT = Task(300, 0, 300, 300)
SHELL = Task(302, 300, 302, 302)
REAPER = Task(310, 302, 302, 310)


@pytest.mark.parametrize(
    "tasks",
    [
        [SHELL, REAPER],
        [SHELL, Task(321, 300, 320)],
        [SHELL, Task(321, 300, 302)],
        [SHELL, Task(321, 300, 320), Task(322, 321, 320)],
        [SHELL, Task(311, 302, 311), Task(312, 311, 302)],
    ],
    ids=[
        "a shell and its child",
        "a daemon whose leader ended, adopted by the root",
        "an orphan of a shell that goes on",
        "a daemon with a child",
        "a child from before its parent began a session",
    ],
)
def test_what_criu_can_place_is_left_as_it_is(tasks: list[Task]) -> None:
    """It is given the original tree."""
    assert plan([ROOT, *tasks]) == ([ROOT, *tasks], [], set())


def test_an_orphan_of_a_leader_that_continues_is_forked_by_it() -> None:
    """And given to the leader's parent, which had adopted it."""
    leader, orphan = Task(320, 310, 320, 320), Task(322, 310, 320, 322)
    made = plan([ROOT, SHELL, REAPER, orphan, leader])

    assert made.tasks == [ROOT, SHELL, REAPER, leader, orphan._replace(parent=320)]
    assert (made.births, made.lost) == ([Birth(322)], set())
    assert spelled(made.births) == "322:0:0:0"


def test_a_session_without_leader_is_begun_for_its_first_member() -> None:
    """The others are forked by that one; CRIU knows none of it, and takes them for the adopter's."""
    orphans = [Task(321, 310, 320, 320), Task(323, 310, 320, 323)]
    child = Task(324, 323, 320, 320)
    made = plan([ROOT, SHELL, REAPER, *orphans, child])

    assert made.lost == set()
    assert made.births == [Birth(321, 320, 302, 310), Birth(323)]
    assert made.tasks[3:] == [
        Task(321, 310, 302, 310),
        Task(323, 321, 302, 323),
        Task(324, 323, 302, 310),
    ]


def test_children_from_before_their_parent_began_a_session_are_born_into_theirs() -> None:
    """Also if those are of two sessions, of which one has no leader any more."""
    daemon = [Task(321, 310, 321, 321), Task(322, 321, 320, 322)]
    made = plan([ROOT, SHELL, REAPER, *daemon])
    assert (made.births, made.tasks[4]) == ([Birth(322, 320, 321, 321)], Task(322, 321, 321, 322))
    both = [Task(311, 302, 311), Task(312, 311, 302), Task(313, 311, 305)]
    assert plan([ROOT, SHELL, *both]).births == [Birth(313, 305, 311, 0)]


def test_one_that_ended_is_its_parents_to_collect() -> None:
    """Alone it returns into its session; beside others only they do, and it is given its parent's."""
    ended, other = Task(321, 310, 320, 320, ended=True), Task(323, 310, 320, 320)
    assert plan([ROOT, SHELL, REAPER, ended]).births == [Birth(321, 320, 302, 310)]
    both = plan([ROOT, SHELL, REAPER, ended, other])
    assert both.births == [Birth(323, 320, 302, 310)]
    below = plan([ROOT, SHELL, REAPER, Task(320, 310, 320, 320), ended])
    for one in (both, below):
        assert one.lost == set()
        assert ended._replace(session=302, group=310) in one.tasks
    assert below.births == []


def test_an_adopter_may_itself_be_an_orphan() -> None:
    """CRIU knows its session by then, and so that of the processes it adopted."""
    orphan = Task(331, 310, 330, 331)
    made = plan([ROOT, SHELL, REAPER, orphan, Task(341, 331, 320, 320)])
    assert made.lost == set()
    assert made.births == [Birth(331, 330, 302, 310), Birth(341, 320, 302, 331)]


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ([SHELL, REAPER, Task(311, 310, 302), Task(321, 310, 320), Task(322, 311, 320)], {321, 322}),
        ([SHELL, REAPER, Task(311, 310, 302), Task(320, 311, 320), Task(321, 310, 320)], {321}),
        ([SHELL, REAPER, Task(312, 310, 320)], {312}),
        ([SHELL, REAPER, Task(320, 310, 320, 320, ended=True), Task(321, 310, 320)], {321}),
    ],
    ids=[
        "a session that two adopted from",
        "an adopter that is not the leader's parent",
        "a number that CRIU may give to somebody else",
        "a leader that has ended and was not collected",
    ],
)
def test_who_cannot_be_placed(tasks: list[Task], expected: set[int]) -> None:
    """Then all is left as it is, and they are reported."""
    made = plan([ROOT, *tasks])
    assert (made.tasks, made.births, made.lost) == ([ROOT, *tasks], [], expected)


def test_who_could_be_placed_is_not_told_with_the_others() -> None:
    """Once those that are reported have ended, the rest can be captured."""
    fit, unfit = Task(321, 310, 320, 320), Task(312, 310, 330)
    assert lost([ROOT, SHELL, REAPER, fit, unfit]) == {312}


def test_no_tree_keeps_it_busy() -> None:
    """Not a circle, not thousands of leaders with thousands of children from before, nor many orphans."""
    assert lost([]) == set()
    assert lost([ROOT, Task(1, 2, 9), Task(2, 1, 9)]) == set()
    chain = [Task(1000 + n, 999 + n if n else 300, 1000 + n) for n in range(20_000)]
    leaves = [Task(30_000 + n, 20_999, 1000) for n in range(20_000)]
    assert lost([ROOT, *chain, *leaves]) == set()
    many = [Task(400 + n, 310, 350) for n in range(MOST + 1)]
    assert len(lost([ROOT, SHELL, REAPER, *many])) == MOST + 1
