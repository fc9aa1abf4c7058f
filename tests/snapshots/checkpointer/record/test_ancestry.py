"""Whose session can be made again, and how, from trees made by hand."""

from __future__ import annotations

import pytest

from holdfast.snapshots.checkpointer.record.ancestry import MOST, Birth, Relatives, lost, plan, spelled

ROOT = Relatives(300, 0, 300, 300)
SHELL = Relatives(302, 300, 302, 302)
REAPER = Relatives(310, 302, 302, 310)


@pytest.mark.parametrize(
    "tasks",
    [
        [SHELL, REAPER],
        [SHELL, Relatives(321, 300, 320)],
        [SHELL, Relatives(321, 300, 302)],
        [SHELL, Relatives(321, 300, 320), Relatives(322, 321, 320)],
        [SHELL, Relatives(311, 302, 311), Relatives(312, 311, 302)],
    ],
    ids=[
        "a shell and its child",
        "a daemon whose leader ended, adopted by the root",
        "an orphan of a shell that goes on",
        "a daemon with a child",
        "a child from before its parent began a session",
    ],
)
def test_placeable_entries_are_left_as_they_are(tasks: list[Relatives]) -> None:
    """It is given the original tree."""
    assert plan([ROOT, *tasks]) == ([ROOT, *tasks], [], set())


def test_an_orphan_of_a_leader_that_continues_is_forked_by_it() -> None:
    """And given to the leader's parent, which had adopted it."""
    leader, orphan = Relatives(320, 310, 320, 320), Relatives(322, 310, 320, 322)
    made = plan([ROOT, SHELL, REAPER, orphan, leader])

    assert made.tasks == [ROOT, SHELL, REAPER, leader, orphan._replace(parent=320)]
    assert (made.births, made.lost) == ([Birth(322)], set())
    assert spelled(made.births) == "322:0:0:0"


def test_a_session_without_leader_is_begun_for_its_first_member() -> None:
    """The others are forked by that one; CRIU knows none of it, and takes them for the adopter's."""
    orphans = [Relatives(321, 310, 320, 320), Relatives(323, 310, 320, 323)]
    child = Relatives(324, 323, 320, 320)
    made = plan([ROOT, SHELL, REAPER, *orphans, child])

    assert made.lost == set()
    assert made.births == [Birth(321, 320, 302, 310), Birth(323)]
    assert made.tasks[3:] == [
        Relatives(321, 310, 302, 310),
        Relatives(323, 321, 302, 323),
        Relatives(324, 323, 302, 310),
    ]


def test_children_from_before_their_parent_began_a_session_are_born_into_theirs() -> None:
    """Also if they belong to two sessions, of which one does not have a leader any more."""
    daemon = [Relatives(321, 310, 321, 321), Relatives(322, 321, 320, 322)]
    made = plan([ROOT, SHELL, REAPER, *daemon])
    assert (made.births, made.tasks[4]) == ([Birth(322, 320, 321, 321)], Relatives(322, 321, 321, 322))
    both = [Relatives(311, 302, 311), Relatives(312, 311, 302), Relatives(313, 311, 305)]
    assert plan([ROOT, SHELL, *both]).births == [Birth(313, 305, 311, 0)]


def test_an_ended_child_is_its_parents_to_collect() -> None:
    """A single child returns into its session; with others only they do, and it is given its parent's."""
    ended, other = Relatives(321, 310, 320, 320, ended=True), Relatives(323, 310, 320, 320)
    assert plan([ROOT, SHELL, REAPER, ended]).births == [Birth(321, 320, 302, 310)]
    both = plan([ROOT, SHELL, REAPER, ended, other])
    assert both.births == [Birth(323, 320, 302, 310)]
    below = plan([ROOT, SHELL, REAPER, Relatives(320, 310, 320, 320), ended])
    for one in (both, below):
        assert one.lost == set()
        assert ended._replace(session=302, group=310) in one.tasks
    assert below.births == []


def test_an_adopter_can_itself_be_an_orphan() -> None:
    """CRIU knows its session by then, and so the session of the processes it adopted."""
    orphan = Relatives(331, 310, 330, 331)
    made = plan([ROOT, SHELL, REAPER, orphan, Relatives(341, 331, 320, 320)])
    assert made.lost == set()
    assert made.births == [Birth(331, 330, 302, 310), Birth(341, 320, 302, 331)]


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        (
            [SHELL, REAPER, Relatives(311, 310, 302), Relatives(321, 310, 320), Relatives(322, 311, 320)],
            {321, 322},
        ),
        (
            [SHELL, REAPER, Relatives(311, 310, 302), Relatives(320, 311, 320), Relatives(321, 310, 320)],
            {321},
        ),
        ([SHELL, REAPER, Relatives(312, 310, 320)], {312}),
        ([SHELL, REAPER, Relatives(320, 310, 320, 320, ended=True), Relatives(321, 310, 320)], {321}),
    ],
    ids=[
        "a session that two adopted from",
        "an adopter that is not the leader's parent",
        "a number that CRIU may give to somebody else",
        "a leader that has ended and was not collected",
    ],
)
def test_unplaceable_sessions(tasks: list[Relatives], expected: set[int]) -> None:
    """Then all is left as it is, and they are reported."""
    made = plan([ROOT, *tasks])
    assert (made.tasks, made.births, made.lost) == ([ROOT, *tasks], [], expected)


def test_placeable_sessions_are_not_listed_with_the_others() -> None:
    """Once the reported ones have ended, the rest can be captured."""
    fit, unfit = Relatives(321, 310, 320, 320), Relatives(312, 310, 330)
    assert lost([ROOT, SHELL, REAPER, fit, unfit]) == {312}


def test_no_tree_keeps_it_busy() -> None:
    """Not a circle, not thousands of leaders with thousands of children from before, nor many orphans."""
    assert lost([]) == set()
    assert lost([ROOT, Relatives(1, 2, 9), Relatives(2, 1, 9)]) == set()
    chain = [Relatives(1000 + n, 999 + n if n else 300, 1000 + n) for n in range(20_000)]
    leaves = [Relatives(30_000 + n, 20_999, 1000) for n in range(20_000)]
    assert lost([ROOT, *chain, *leaves]) == set()
    many = [Relatives(400 + n, 310, 350) for n in range(MOST + 1)]
    assert len(lost([ROOT, SHELL, REAPER, *many])) == MOST + 1
