from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.errors import InvalidArgument, SnapshotNotFound
from holdfast.runtime.history.lineage import family
from holdfast.runtime.store.row_details import SessionDetails, SnapshotDetails
from holdfast.runtime.store.rows import SessionRow, SnapshotRow

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _session(parent: str | None = None, generation: int = 0) -> SessionRow:
    return SessionRow("s", "work", "running", "i", NOW, None, parent, generation)


def _taken(identity: str, parent: str | None, of: str = "s", generation: int = 0) -> SnapshotRow:
    return SnapshotRow(
        identity, None, "live", "ready", of, NOW, parent, details=SnapshotDetails.of(generation=generation)
    )


CHAIN = [_taken("a", None), _taken("b", "a"), _taken("c", "b"), _taken("x", "a", "other")]


def test_the_past_of_a_session_is_the_way_up_from_its_last_snapshot() -> None:
    """The last one first; snapshots of an abandoned life are not in it."""
    assert [row.id for row in family.line(_session(), CHAIN)] == ["c", "b", "a"]
    assert [row.id for row in family.line(_session("a", 1), CHAIN)] == ["a"]


def test_a_circle_in_the_store_ends() -> None:
    """A damaged lineage is walked once."""
    assert len(family.line(_session(), [_taken("a", "b"), _taken("b", "a")])) == 2


def test_a_session_is_rewound_to_its_own_snapshots_and_their_past() -> None:
    """Also to snapshots of an abandoned life; others' snapshots are refused."""
    fork = SessionRow("f", "fork", "running", "i", NOW, None, "b", 1)
    family.check(_session("a", 1), CHAIN[2], CHAIN)
    family.check(fork, CHAIN[0], CHAIN)
    for row in (CHAIN[2], CHAIN[3]):
        with pytest.raises(InvalidArgument, match="not in its lineage"):
            family.check(fork, row, CHAIN)


def test_a_snapshot_is_named_by_its_place_in_the_past() -> None:
    """`@-1` is the last one; other texts are not places; a past can be too short."""
    found = [family.relative(text, _session(), CHAIN) for text in ("@-1", "@-3", "before", "@-0", "@1")]

    assert [row and row.id for row in found] == ["c", "a", None, None, None]
    with pytest.raises(SnapshotNotFound, match="has 3 snapshots"):
        family.relative("@-4", _session(), CHAIN)


def _session_parent(**known: Any) -> SessionRow:
    return SessionRow("s", "work", "running", "image", NOW, **known)


def _taken_parent(identity: str, generation: int, of: str = "s") -> SnapshotRow:
    return SnapshotRow(
        identity, None, "live", "ready", of, NOW, details=SnapshotDetails.of(generation=generation)
    )


def test_the_first_snapshot_of_a_fresh_session_has_no_parent() -> None:
    """There is nothing before it, whatever other sessions have."""
    assert family.parent_of_next(_session_parent(), [_taken_parent("a", 0, "other")]) is None


def test_a_snapshot_comes_after_the_last_one_of_its_session() -> None:
    """Those of one life of a session follow each other."""
    assert family.parent_of_next(_session_parent(), [_taken_parent("a", 0), _taken_parent("b", 0)]) == "b"


def test_after_a_rewind_later_snapshots_are_not_ancestors() -> None:
    """The snapshot rewound to is the parent, not one of the abandoned life."""
    found = [_taken_parent("a", 0), _taken_parent("b", 0)]

    assert family.parent_of_next(_session_parent(parent_snapshot_id="a", generation=1), found) == "a"
    assert (
        family.parent_of_next(
            _session_parent(parent_snapshot_id="a", generation=1), [*found, _taken_parent("c", 1)]
        )
        == "c"
    )


def test_a_removed_parent_is_replaced_by_the_one_before_it() -> None:
    """The nearest that still exists is the parent."""
    session = _session_parent(
        parent_snapshot_id="gone", generation=1, details=SessionDetails({"ancestor": "a"})
    )

    assert family.parent_of_next(session, [_taken_parent("a", 0)]) == "a"
    assert family.parent_of_next(session, []) is None
