from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast.errors import InvalidArgument, SnapshotNotFound
from holdfast.runtime.history.lineage import family
from holdfast.runtime.store.row_details import SnapshotDetails
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
    """Also to those of an abandoned life; those of others are refused."""
    fork = SessionRow("f", "fork", "running", "i", NOW, None, "b", 1)
    family.check(_session("a", 1), CHAIN[2], CHAIN)
    family.check(fork, CHAIN[0], CHAIN)
    for row in (CHAIN[2], CHAIN[3]):
        with pytest.raises(InvalidArgument, match="not of its lineage"):
            family.check(fork, row, CHAIN)


def test_a_snapshot_is_named_by_its_place_in_the_past() -> None:
    """@-1 is the last one; other texts are not places; there may be too few."""
    found = [family.relative(text, _session(), CHAIN) for text in ("@-1", "@-3", "before", "@-0", "@1")]

    assert [row and row.id for row in found] == ["c", "a", None, None, None]
    with pytest.raises(SnapshotNotFound, match="has 3 snapshots"):
        family.relative("@-4", _session(), CHAIN)
