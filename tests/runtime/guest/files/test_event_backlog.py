"""Changes that wait for their reader: numbered, confirmed, bounded."""

from __future__ import annotations

from holdfast.runtime.guest.files.event_backlog import BATCH_BYTES, MAX_BYTES, EventBacklog
from holdfast.runtime.guest.files.path_events import PathChange


def test_changes_stay_until_they_are_confirmed() -> None:
    """A batch that was lost with its connection is sent again, with the same numbers."""
    backlog = EventBacklog(4)
    for name in "abc":
        backlog.add(PathChange("created", name))
    first = backlog.batch(4)
    assert [number for number, _ in first] == [5, 6, 7]
    assert backlog.batch(4) == first
    backlog.received(6)
    assert backlog.batch(6) == first[2:]
    backlog.received(7)
    assert backlog.batch(7) == []


def test_repeated_writes_are_one_until_they_are_sent() -> None:
    backlog = EventBacklog()
    for _ in range(5):
        backlog.add(PathChange("modified", "a"))
        backlog.add(PathChange("modified", "b")) if backlog.last == 5 else None
    assert len(backlog.batch(0)) == 1
    backlog.add(PathChange("modified", "a"))
    assert [number for number, _ in backlog.batch(1)] == [2]
    backlog.add(PathChange("created", "c"))
    backlog.add(PathChange("created", "c"))
    assert [number for number, _ in backlog.batch(2)] == [3, 4]


def test_a_reader_that_never_reads_costs_a_bounded_amount() -> None:
    """It learns once that changes were lost, and gets those that come after it has caught up."""
    backlog = EventBacklog()
    for number in range(100_000):
        backlog.add(PathChange("created", f"{number}"))
    assert backlog.high
    assert backlog.last < MAX_BYTES / 100
    found, after = [], 0
    while batch := backlog.batch(after):
        assert len(batch) < BATCH_BYTES / 100 + 1
        found += [change for _, change in batch]
        after = batch[-1][0]
        backlog.received(after)
    assert [change.kind for change in found].count("lost") == 1
    assert found[-1] == PathChange("lost", "", why="slow")
    assert not backlog.high
    backlog.add(PathChange("created", "x"))
    assert backlog.batch(after) == [(after + 1, PathChange("created", "x"))]


def test_losses_are_noted_once_until_they_are_sent() -> None:
    backlog = EventBacklog()
    backlog.lose("overflow")
    backlog.lose("capture")
    assert [change.why for _, change in backlog.batch(0)] == ["overflow"]
    backlog.lose("capture")
    assert [change.why for _, change in backlog.batch(1)] == ["capture"]
