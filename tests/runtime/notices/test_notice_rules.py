"""The events that are reported, and the people who get them."""

from __future__ import annotations

from datetime import UTC, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.notices.notice_rules import (
    MOST_HELD,
    MOST_OF_SESSION,
    SETTLE_SECONDS,
    WINDOW_SECONDS,
    NoticeRate,
    QuietHours,
    SentNotice,
    SessionNotices,
    Wish,
)
from holdfast.runtime.notices.subscriptions import quiet_hours

STATE = {"detail": "password", "command": "ssh", "prompt": "Password: "}
ASKS = {"shell": "main", "id": "c1", "state": STATE}


def _work() -> SessionNotices:
    return SessionNotices("0123456789ab", "work")


def _notice(kind: Any = "ended", **more: Any) -> SentNotice:
    return SentNotice(kind, "0123456789ab", "work", "title", "", 0.0, **more)


def test_an_unanswered_question_is_reported_after_a_moment() -> None:
    """It says the program, the kind and the prompt, and is reported once."""
    work = _work()
    assert work.hear("waiting", ASKS, 100.0, 100.0) is None
    assert list(work.due(100.0 + SETTLE_SECONDS / 2)) == []
    (told,) = work.due(100.0 + SETTLE_SECONDS)
    assert (told.kind, told.title, told.text, told.shell) == (
        "waiting",
        "work: ssh waits for a password",
        "Password:",
        "main",
    )
    assert list(work.due(1000.0)) == []


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("input", {"shell": "main", "bytes": 8}),
        ("command_ended", {"shell": "main", "id": "c1", "exit_code": 0, "duration": 1.0}),
    ],
)
def test_answered_questions_are_not_reported(kind: str, data: dict[str, Any]) -> None:
    """An agent that answers immediately disturbs no one; input into a different shell is not an answer."""
    work = _work()
    work.hear("waiting", ASKS, 100.0, 100.0)
    work.hear("input", {"shell": "other"}, 100.1, 100.1)
    assert work.holds
    work.hear(kind, data, 100.2, 100.2)
    assert list(work.due(1000.0)) == []


@pytest.mark.parametrize(
    ("kind", "data", "told", "text"),
    [
        ("command_ended", {"id": "c1", "exit_code": 0}, "ended", "make test"),
        ("command_ended", {"id": "c1", "exit_code": 2}, "failed", "make test (exit 2)"),
        ("command_ended", {"id": "c1", "signal": 9}, "failed", "make test (signal 9)"),
        ("cell_ended", {"id": "k", "status": "ok"}, "ended", "cell"),
        ("cell_ended", {"id": "k", "status": "error"}, "failed", "cell (error)"),
        ("job_ended", {"id": "j", "command": "serve", "exit_code": 1}, "failed", "serve (exit 1)"),
    ],
)
def test_an_end_has_its_manner(kind: str, data: dict[str, Any], told: str, text: str) -> None:
    """With the command's text, which came when it started."""
    work = _work()
    work.hear("command_started", {"id": "c1", "command": "make test"}, 1.0, 1.0)
    found = work.hear(kind, {"duration": 75.0, "actor": "agent:x", **data}, 80.0, 80.0)
    assert found is not None
    assert (found.kind, found.text, found.seconds, found.actor) == (told, text, 75.0, "agent:x")
    assert found.title == f"work: {told} after 75 s"


@pytest.mark.parametrize(
    ("cause", "told"),
    [("oom", True), ("exited", True), ("dead", True), ("removed", False)],
)
def test_a_death_of_a_session_is_reported_and_its_removal_is_not(cause: str, told: bool) -> None:
    """To remove or suspend it is someone's wish."""
    found = _work().hear("session_ended", {"cause": cause, "message": "its container ended"}, 1.0, 1.0)
    assert (found is not None and found.kind == "died") is told


def test_a_sessions_texts_in_events_are_cut_and_plain() -> None:
    """Fields of any type, control characters, directions and lengths; and no number of them takes memory."""
    hostile = "\x1b]0;x\x07\u202e<b>" + "A" * 10_000
    work = _work()
    for number in range(3 * MOST_HELD):
        state = {"detail": [1], "command": hostile, "prompt": hostile}
        work.hear("waiting", {"shell": f"s{number}", "id": {}, "state": state}, 1.0, 1.0)
        work.hear("command_started", {"id": f"c{number}", "command": hostile}, 1.0, 1.0)
    found = [*work.due(100.0)]
    assert len(found) == MOST_HELD
    for each in found:
        assert len(each.title) < 200
        assert len(each.text) < 200
        assert "\x1b" not in each.title + each.text
        assert "\u202e" not in each.title + each.text
    for data in ({}, {"state": 3}, {"duration": "1", "exit_code": "x"}, {"duration": float("inf")}):
        for kind in ("waiting", "command_ended", "cell_ended", "job_ended", "input", "session_ended", "zzz"):
            work.hear(kind, data, 1.0, 1.0)


def test_a_wish_chooses_session_kind_and_length() -> None:
    """One's own short failure is not reported: one has seen it."""
    wish = Wish("person:ann", after=60.0)
    assert wish.takes(_notice(seconds=61.0), 0.0)
    assert not wish.takes(_notice(seconds=59.0), 0.0)
    assert wish.takes(_notice("failed", seconds=1.0, actor="agent:x"), 0.0)
    assert not wish.takes(_notice("failed", seconds=1.0, actor="person:ann"), 0.0)
    assert not Wish("a", kinds=frozenset({"died"})).takes(_notice("waiting"), 0.0)
    assert not Wish("a", session="ffffffffffff").takes(_notice("waiting"), 0.0)


@pytest.mark.parametrize(
    ("hour", "quiet"), [(21, False), (22, True), (23, True), (3, True), (6, True), (7, False), (12, False)]
)
def test_quiet_hours_pass_midnight_in_their_zone(hour: int, quiet: bool) -> None:
    """22:00 to 07:00 in Berlin, summer time included."""
    berlin = ZoneInfo("Europe/Berlin")
    at = datetime(2026, 7, 1, hour, 30, tzinfo=berlin).timestamp()
    hours = quiet_hours("22:00-07:00 Europe/Berlin")
    assert hours is not None
    assert hours.are_at(at) is quiet
    assert Wish("a", quiet=hours).takes(_notice("waiting"), at) is not quiet


def test_hours_by_day_and_invalid_hours() -> None:
    """UTC without a zone; a text that is not two times is refused."""
    assert QuietHours(time(9), time(17), UTC).are_at(datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp())
    for text in (
        "night",
        "22:00",
        "25:00-07:00",
        "22:00-07:00 No/Where",
        "22:00-07:00 ../../x",
        "22:00-07:00 ../../etc/passwd",
    ):
        with pytest.raises(InvalidArgument, match="quiet"):
            quiet_hours(text)


def test_a_session_that_writes_events_without_end_is_reported_a_few_times() -> None:
    """The rest of the window is silent for this session alone."""
    rate = NoticeRate()
    given = [rate.allows("s", "one", float(number)) for number in range(100)]
    assert given.count(True) == MOST_OF_SESSION
    assert rate.allows("s", "two", 100.0)
    assert rate.allows("s", "one", 100.0 + WINDOW_SECONDS)
