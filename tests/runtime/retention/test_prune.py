from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.runtime.retention import prune
from holdfast.runtime.store.policy import Policy
from holdfast.runtime.store.row_details import SnapshotDetails
from holdfast.runtime.store.rows import SessionRow, SnapshotRow

NOW = datetime(2026, 3, 10, 12, 30, tzinfo=UTC)


def _row(identity: str, age: timedelta, *, auto: bool = True, **known: Any) -> SnapshotRow:
    details = SnapshotDetails({"auto": {"trigger": "every"}} if auto else {})
    return SnapshotRow(identity, None, "live", "ready", "s", NOW - age, details=details, **known)


def _hours(count: int) -> list[SnapshotRow]:
    return [_row(f"h{age}", timedelta(hours=age)) for age in range(count)]


def _gone(rows: list[SnapshotRow], policy: Policy, needs: set[str] | None = None) -> list[str]:
    return [row.id for row in prune.expired(rows, policy, needs or set(), NOW)]


def test_the_newest_are_kept() -> None:
    """As many as the policy says, whatever the order they come in."""
    assert _gone(_hours(5), Policy(keep=2)) == ["h4", "h3", "h2"]
    assert _gone(_hours(5)[::-1], Policy(keep=2)) == ["h4", "h3", "h2"]
    assert _gone(_hours(5), Policy(keep=9)) == []
    assert _gone(_hours(2), Policy(keep=0)) == ["h1", "h0"]


def test_only_automatic_snapshots_expire() -> None:
    """Manual, pinned and needed ones stay, and do not count as kept ones."""
    rows = [
        _row("manual", timedelta(9), auto=False),
        _row("pinned", timedelta(8), pinned=True),
        _row("needed", timedelta(7)),
        *_hours(3),
    ]

    assert _gone(rows, Policy(keep=1), {"needed"}) == ["h2", "h1"]


def test_young_ones_are_kept_for_their_time() -> None:
    """One kept by any rule is kept; one from the future is young."""
    rows = [_row("tomorrow", timedelta(days=-1)), *_hours(6)]

    assert _gone(rows, Policy(keep=1, keep_for=2.5 * 3600)) == ["h5", "h4", "h3"]


def test_older_ones_are_thinned() -> None:
    """The last of an hour and of a day stands for it, in the latest hours and days that have any."""
    rows = [
        _row(f"{day}-{minute}", timedelta(days=day, minutes=minute)) for day in range(4) for minute in (0, 5)
    ]

    assert _gone(rows, Policy(keep=0, daily=2)) == ["3-5", "3-0", "2-5", "2-0", "1-5", "0-5"]
    assert _gone(rows, Policy(keep=0, hourly=3)) == ["3-5", "3-0", "2-5", "1-5", "0-5"]


@pytest.mark.parametrize("state", ["pending"])
def test_unfinished_ones_are_left_alone(state: Any) -> None:
    """One that is being taken does not expire."""
    rows = [
        SnapshotRow("p", None, "live", state, "s", NOW, details=SnapshotDetails({"auto": {}})),
        *_hours(1),
    ]

    assert _gone(rows, Policy(keep=0)) == ["h0"]


def test_snapshots_that_sessions_were_made_from_are_needed() -> None:
    """Also of suspended and dead ones; not of removed ones."""
    rows = [
        SessionRow(state, state, state, "i", NOW, parent_snapshot_id=f"of-{state}")
        for state in ("running", "suspended", "dead", "removed")
    ]

    assert prune.needed(rows) == {"of-running", "of-suspended", "of-dead"}


def _sized(identity: str, size: int, age: int, *, auto: bool = True, pinned: bool = False) -> SnapshotRow:
    return _row(identity, timedelta(hours=age), auto=auto, pinned=pinned, bytes=size)


def test_the_oldest_automatic_ones_make_room() -> None:
    """As many as needed and no more; nothing goes where there is room."""
    rows = [_sized("a", 10, 4), _sized("b", 10, 3, auto=False), _sized("c", 10, 2), _sized("d", 10, 1)]

    assert prune.room(rows, 50, 10, set()) == ([], 0)
    assert prune.room(rows, 45, 10, set()) == ([rows[0]], 0)
    assert prune.room(rows, 30, 10, set()) == ([rows[0], rows[2]], 0)
    assert prune.room(rows, 45, 10, {"a"}) == ([rows[2]], 0)


def test_a_snapshot_that_cannot_fit_removes_nothing() -> None:
    """If the manual and pinned ones are too many already, the rest stays, and the missing bytes are
    reported.
    """
    rows = [_sized("a", 10, 4), _sized("b", 30, 3, auto=False), _sized("c", 10, 2, pinned=True)]

    assert prune.room(rows, 45, 10, set()) == ([], 5)


def test_protected_snapshots_are_never_removed() -> None:
    """For a thousand made-up homes: only automatic, unpinned ones that nothing needs are chosen."""
    from random import Random

    dice = Random(7)
    for _ in range(1000):
        rows = [
            _sized(
                f"s{at}",
                dice.randrange(100),
                dice.randrange(500),
                auto=dice.random() < 0.6,
                pinned=dice.random() < 0.2,
            )
            for at in range(dice.randrange(12))
        ]
        needs = {row.id for row in rows if dice.random() < 0.2}
        policy = Policy(
            keep=dice.randrange(4), keep_for=dice.choice([None, 3600.0, 1e6]), hourly=dice.randrange(3)
        )
        safe = {row.id for row in rows if row.pinned or row.id in needs or not prune.automatic(row)}
        going, missing = prune.room(rows, dice.randrange(600), dice.randrange(100), needs)
        assert not safe & {row.id for row in going}
        assert not (going and missing)
        gone = prune.expired(rows, policy, needs, NOW)
        assert not safe & {row.id for row in gone}
        mine = sorted(filter(prune.automatic, rows), key=lambda row: (row.created_at, row.id))
        newest = {row.id for row in mine[max(0, len(mine) - policy.keep) :]}
        assert not newest & {row.id for row in gone}
