"""Which actors are notified of which deaths."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.runtime.guest.records.notifications import AT_ONCE, MAX_ACTORS, MAX_SHELLS, News, is_news


def died(news: News, seq: int, kind: str = "process_exited", **fields: Any) -> None:
    news.add(seq, 1.0, kind, fields)


def told(news: News, actor: str = "agent") -> list[int]:
    return [item["seq"] for item in news.since(actor)]


def test_each_actor_is_notified_once() -> None:
    """An agent does not get again what it knows, and gets what another already got."""
    news = News()
    assert told(news) == []
    died(news, 3, signal=9)
    died(news, 4, exit_code=1)
    assert told(news) == [3, 4]
    assert told(news) == []
    died(news, 7, "kernel_died", cause="oom")
    assert told(news) == [7]
    assert told(news, "person:ann") == [3, 4, 7]


def test_the_latest_of_many() -> None:
    """A result is not the place for a long list; the events are."""
    news = News()
    for seq in range(1, 100):
        died(news, seq, signal=9)
    assert told(news) == list(range(100 - AT_ONCE, 100))


def test_an_actor_is_not_notified_of_what_it_killed() -> None:
    """The actor who ended a job knows."""
    news = News()
    died(news, 1, "job_ended", signal=15, killed_by="agent")
    assert told(news) == []
    assert told(news, "agent:b") == [1]


def test_an_actor_is_not_notified_of_what_it_waited_for() -> None:
    """An actor who followed a job to its end knows."""
    news = News()
    died(news, 1, "job_ended", exit_code=0, id="t")
    news.heard("agent", "t")
    assert told(news) == []
    assert told(news, "agent:b") == [1]


def test_a_named_victim_replaces_the_count_of_memory_kills() -> None:
    """The count alone is reported only where the victim is unknown."""
    news = News()
    died(news, 1, "oom", kills=1)
    died(news, 2, cause="oom", signal=9)
    assert told(news) == [2]
    died(news, 3, "oom", kills=1)
    assert told(news) == [3]


def test_the_end_of_a_shell_is_news_to_those_who_used_it() -> None:
    """Not to the actor whose own command ended it, nor twice; the next shell of that name is another."""
    news = News()
    for actor in ("agent:a", "agent:b"):
        news.uses(actor, "main")
    news.uses("agent:c", "other")
    died(news, 1, "shell_ended", shell="main", exit_code=0, actor="agent:b")
    assert told(news, "agent:a") == [1]
    assert told(news, "agent:a") == told(news, "agent:b") == told(news, "agent:c") == []
    died(news, 2, "shell_ended", shell="main", exit_code=0)
    assert told(news, "agent:a") == []


def test_users_of_shells_are_bounded() -> None:
    """Shells are opened and closed under any name."""
    news = News()
    for number in range(MAX_SHELLS * 2):
        news.uses("agent", f"s{number}")
    assert len(news._users) == MAX_SHELLS


def test_actors_are_bounded() -> None:
    """Anyone may come under any name."""
    news = News()
    died(news, 1, signal=9)
    for number in range(MAX_ACTORS * 2):
        told(news, f"agent:{number}")
    assert len(news._delivered) == MAX_ACTORS


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        ("process_exited", {"exit_code": 0}, False),
        ("process_exited", {"exit_code": 2}, True),
        ("process_exited", {"exit_code": None}, True),
        ("kernel_died", {"cause": "restarted"}, False),
        ("kernel_died", {"cause": "signal"}, True),
        ("job_ended", {"exit_code": 0}, True),
        ("shell_ended", {"exit_code": 0}, True),
        ("shell_ended", {"exit_code": 0, "closed": True}, False),
        ("restarted", {"signal": 9}, True),
        ("woken", {}, False),
    ],
)
def test_surprising_ends_are_news(kind: str, fields: dict[str, Any], expected: bool) -> None:
    """A shell that was closed is not, nor a process that was done."""
    assert is_news(kind, fields) is expected
