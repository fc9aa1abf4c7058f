"""Who is told of which deaths."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.runtime.guest.records.notifications import AT_ONCE, MAX_ACTORS, News, is_news


def died(news: News, seq: int, kind: str = "process_exited", **fields: Any) -> None:
    news.add(seq, 1.0, kind, fields)


def told(news: News, actor: str = "agent") -> list[int]:
    return [item["seq"] for item in news.since(actor)]


def test_each_is_reported_once_to_each() -> None:
    """An agent is not told again of what it knows, nor kept from what another was told."""
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
    """A result is no place for a list; the events are."""
    news = News()
    for seq in range(1, 100):
        died(news, seq, signal=9)
    assert told(news) == list(range(100 - AT_ONCE, 100))


def test_one_does_not_hear_of_what_one_has_killed() -> None:
    """Who ended a task knows."""
    news = News()
    died(news, 1, "task_ended", signal=15, killed_by="agent")
    assert told(news) == []
    assert told(news, "agent:b") == [1]


def test_one_does_not_hear_of_what_one_has_waited_for() -> None:
    """Who followed a task to its end knows it."""
    news = News()
    died(news, 1, "task_ended", exit_code=0, id="t")
    news.heard("agent", "t")
    assert told(news) == []
    assert told(news, "agent:b") == [1]


def test_who_was_killed_for_memory_says_more_than_that_somebody_was() -> None:
    """The count alone is told only where nobody knows the victim."""
    news = News()
    died(news, 1, "oom", kills=1)
    died(news, 2, cause="oom", signal=9)
    assert told(news) == [2]
    died(news, 3, "oom", kills=1)
    assert told(news) == [3]


def test_actors_are_bounded() -> None:
    """Anybody may come under any name."""
    news = News()
    died(news, 1, signal=9)
    for number in range(MAX_ACTORS * 2):
        told(news, f"agent:{number}")
    assert len(news._told) == MAX_ACTORS


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        ("process_exited", {"exit_code": 0}, False),
        ("process_exited", {"exit_code": 2}, True),
        ("process_exited", {"exit_code": None}, True),
        ("kernel_died", {"cause": "restarted"}, False),
        ("kernel_died", {"cause": "signal"}, True),
        ("task_ended", {"exit_code": 0}, True),
        ("shell_ended", {"exit_code": 0}, False),
        ("woken", {}, False),
    ],
)
def test_what_is_news(kind: str, fields: dict[str, Any], expected: bool) -> None:
    """What may surprise; a job that is done is none, and the end of the shell is told by its command."""
    assert is_news(kind, fields) is expected
