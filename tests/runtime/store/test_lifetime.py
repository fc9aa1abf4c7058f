"""When a session ends and sleeps, by a clock that is given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.store.lifetime import Lifetime, changed, lines
from holdfast.runtime.store.row_details import SessionDetails


def test_choices_are_read_and_a_life_begins_again_when_it_is_given_again() -> None:
    """Other changes leave its end where it was."""
    found = changed(Lifetime(), 1000, {"life": "2h", "then": "remove", "idle": "30m"})
    assert (found.life, found.then, found.idle, found.ends_at) == (7200, "remove", 1800, 8200)
    assert changed(found, 5000, {"life": 7200}).ends_at == 12200
    assert changed(found, 5000, {"idle": None}) == replace(found, idle=None)
    assert changed(found, 5000, {"life": None}).ends_at is None
    assert changed(found, 5000, {}) == found


@pytest.mark.parametrize(
    ("choices", "why"),
    [
        ({"life": "soon"}, "not a duration"),
        ({"life": -5}, "not a duration"),
        ({"life": float("nan")}, "not a duration"),
        ({"life": True}, "not a duration"),
        ({"idle": "1s"}, "shortest"),
        ({"then": "explode", "life": "1h"}, "suspend or remove"),
        ({"then": "remove"}, "does not end"),
        ({"sleep": 5}, "not have 'sleep'"),
    ],
)
def test_other_choices_are_refused(choices: dict[str, Any], why: str) -> None:
    """The message says what is wrong with the choice."""
    with pytest.raises(InvalidArgument, match=why):
        changed(Lifetime(), 1000, choices)


def test_an_end_can_be_moved_and_by_connecting_only_later() -> None:
    """`longer` never brings the end nearer."""
    found = Lifetime().given(60, 1000)
    assert (found.due("running", 1059), found.due("running", 1060)) == (False, True)
    assert found.given(10, 1000).ends_at == 1010
    assert found.given(10, 1000, longer=True).ends_at == 1060
    assert found.given(90, 1000, longer=True).ends_at == 1090


ENDS = Lifetime(life=60, ends_at=99)
REMOVED = replace(ENDS, then="remove")


@pytest.mark.parametrize(
    ("state", "found", "due"),
    [
        ("running", ENDS, True),
        ("running", REMOVED, True),
        ("running", replace(ENDS, ends_at=101), False),
        ("running", Lifetime(), False),
        ("dead", REMOVED, True),
        ("dead", ENDS, False),  # what can be saved of it is for its owner
        ("suspended", REMOVED, False),  # somebody suspended it
        ("suspended", replace(REMOVED, asleep="idle"), True),
        ("suspended", replace(ENDS, asleep="idle"), False),
        ("suspended", replace(ENDS, ended=True), True),
        ("creating", REMOVED, False),
        ("removed", replace(REMOVED, ended=True), False),
    ],
)
def test_due_work_is_planned(state: str, found: Lifetime, due: bool) -> None:
    """A running session is due at its end; others only where nothing of value is lost."""
    assert found.due(state, 100) is due


def test_the_clock_of_a_suspended_session_stops_unless_it_sleeps_and_is_to_be_removed() -> None:
    """Only a session that sleeps without use and is to be removed keeps its end."""
    for why in ("", "life"):
        assert REMOVED.suspended(why).ends_at is None
    assert ENDS.suspended("idle").ends_at is None
    assert REMOVED.suspended("idle").ends_at == 99


def test_a_resumed_session_lives_again() -> None:
    """One whose life was over begins another; an end that still lies ahead stays."""
    assert ENDS.suspended("life").resumed(500) == replace(ENDS, ends_at=560, used_at=500)
    assert REMOVED.suspended("idle").resumed(50).ends_at == 99
    assert Lifetime(idle=60).suspended("idle").resumed(50).ends_at is None


def test_only_sleeping_sessions_wake_on_use() -> None:
    """Not a session that a person suspended, nor one that is not to wake or has ended."""
    assert ENDS.suspended("life").sleeps
    assert Lifetime(idle=60).suspended("idle").sleeps
    assert not ENDS.suspended().sleeps
    assert not replace(ENDS, wakes=False).suspended("life").sleeps
    assert not replace(ENDS, ended=True).suspended("life").sleeps


def test_an_end_is_announced_once() -> None:
    """Five minutes before it, or in the last tenth of a short life."""
    found = Lifetime().given(7200, 0)
    assert [found.warns("running", at) for at in (6000, 6900, 7199, 7200)] == [False, True, True, False]
    short = Lifetime().given(60, 0)
    assert [short.warns("running", at) for at in (53, 54)] == [False, True]
    assert not replace(found, warned_of=7200.0).warns("running", 7000)
    assert not found.warns("suspended", 7000)


def test_when_to_look_again() -> None:
    """At the announcement, then at the end; never for a session without an end."""
    found = Lifetime().given(7200, 0)
    assert [found.next_look("running", at) for at in (0, 6900, 7200)] == [6900, 300, None]
    assert found.next_look("suspended", 0) is None
    assert replace(found, asleep="idle", then="remove").next_look("suspended", 0) == 7200


@pytest.mark.parametrize("detail", [None, 3, "x", [], {"life": "soon"}, {"then": "explode"}, {"ended": 1}])
def test_an_unreadable_journal_is_not_taken_for_an_end(detail: object) -> None:
    """A damaged detail never ends a session."""
    assert Lifetime.kept(detail) == Lifetime()


def test_kept_values_are_read_again() -> None:
    """Every field; the defaults take no space."""
    found = replace(REMOVED, asleep="idle", idle=60.0, files_only=True, warned_of=99.0, trouble="busy")
    assert Lifetime.of(SessionDetails().plus(lifetime=found.as_dict())) == found
    assert Lifetime().as_dict() == {}


def test_a_lifetime_has_a_text() -> None:
    """One line each for the end and for the sleep."""
    assert lines(Lifetime(), "running", 0) == ["does not end"]
    found = Lifetime(idle=1800, then="remove").given(7200, 0)
    assert lines(found, "running", 3600) == [
        "is removed in 1 h, after a life of 2 h",
        "sleeps after 30 m without use, and wakes on use",
    ]
    assert lines(ENDS.suspended("life"), "suspended", 0) == [
        "lives 1 m again when it is resumed",
        "sleeps: its life was over",
    ]
