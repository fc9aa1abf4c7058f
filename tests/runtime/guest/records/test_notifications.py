"""Which actors are notified of which deaths."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.runtime.guest.records.notifications import (
    AT_ONCE,
    MAX_ACTORS,
    MAX_SHELLS,
    Notifications,
    is_news,
)


def died(notifications: Notifications, seq: int, kind: str = "process_exited", **fields: Any) -> None:
    notifications.add(seq, 1.0, kind, fields)


def told(notifications: Notifications, actor: str = "agent") -> list[int]:
    return [item["seq"] for item in notifications.since(actor)]


def test_each_actor_is_notified_once() -> None:
    """An agent does not get again what it knows, and gets what another already got."""
    notifications = Notifications()
    assert told(notifications) == []
    died(notifications, 3, signal=9)
    died(notifications, 4, exit_code=1)
    assert told(notifications) == [3, 4]
    assert told(notifications) == []
    died(notifications, 7, "kernel_died", cause="oom")
    assert told(notifications) == [7]
    assert told(notifications, "person:ann") == [3, 4, 7]


def test_the_latest_of_many() -> None:
    """A result is not the place for a long list; the events are."""
    notifications = Notifications()
    for seq in range(1, 100):
        died(notifications, seq, signal=9)
    assert told(notifications) == list(range(100 - AT_ONCE, 100))


def test_an_actor_is_not_notified_of_its_own_kills() -> None:
    """The actor who ended a job knows."""
    notifications = Notifications()
    died(notifications, 1, "job_ended", signal=15, killed_by="agent")
    assert told(notifications) == []
    assert told(notifications, "agent:b") == [1]


def test_an_actor_is_not_notified_of_awaited_ends() -> None:
    """An actor who followed a job to its end knows."""
    notifications = Notifications()
    died(notifications, 1, "job_ended", exit_code=0, id="t")
    notifications.heard("agent", "t")
    assert told(notifications) == []
    assert told(notifications, "agent:b") == [1]


def test_the_caller_of_a_cell_is_not_notified_of_the_death_it_was_told_of() -> None:
    """The cell's error has named it; other actors learn of it, and everyone of the next kernel's death."""
    notifications = Notifications()
    died(notifications, 1, "oom", kills=1)
    died(notifications, 2, "kernel_died", kernel="main", epoch=1, cause="oom")
    notifications.heard("agent", "main", 1)
    assert told(notifications) == []
    assert told(notifications, "agent:b") == [2]
    died(notifications, 3, "kernel_died", kernel="main", epoch=2, cause="signal")
    died(notifications, 4, "kernel_died", kernel="other", epoch=1, cause="signal")
    assert told(notifications) == [3, 4]


def test_a_named_victim_replaces_the_count_of_memory_kills() -> None:
    """The count alone is reported only where the victim is unknown."""
    notifications = Notifications()
    died(notifications, 1, "oom", kills=1)
    died(notifications, 2, cause="oom", signal=9)
    assert told(notifications) == [2]
    died(notifications, 3, "oom", kills=1)
    assert told(notifications) == [3]


def test_the_end_of_a_shell_is_news_to_its_users() -> None:
    """Not to the actor whose own command ended it, nor twice; the next shell of that name is new."""
    notifications = Notifications()
    for actor in ("agent:a", "agent:b"):
        notifications.uses(actor, "main")
    notifications.uses("agent:c", "other")
    died(notifications, 1, "shell_ended", shell="main", exit_code=0, actor="agent:b")
    assert told(notifications, "agent:a") == [1]
    assert (
        told(notifications, "agent:a")
        == told(notifications, "agent:b")
        == told(notifications, "agent:c")
        == []
    )
    died(notifications, 2, "shell_ended", shell="main", exit_code=0)
    assert told(notifications, "agent:a") == []


def test_users_of_shells_are_bounded() -> None:
    """Shells are opened and closed under any name."""
    notifications = Notifications()
    for number in range(MAX_SHELLS * 2):
        notifications.uses("agent", f"s{number}")
    assert len(notifications._users) == MAX_SHELLS


def test_actors_are_bounded() -> None:
    """Any name can be used by anyone."""
    notifications = Notifications()
    died(notifications, 1, signal=9)
    for number in range(MAX_ACTORS * 2):
        told(notifications, f"agent:{number}")
    assert len(notifications._delivered) == MAX_ACTORS


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
