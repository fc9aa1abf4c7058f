from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from holdfast.runtime.history.lineage import parent
from holdfast.runtime.store.row_details import SessionDetails, SnapshotDetails
from holdfast.runtime.store.rows import SessionRow, SnapshotRow

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _session(**known: Any) -> SessionRow:
    return SessionRow("s", "work", "running", "image", NOW, **known)


def _taken(identity: str, generation: int, of: str = "s") -> SnapshotRow:
    return SnapshotRow(
        identity, None, "live", "ready", of, NOW, details=SnapshotDetails.of(generation=generation)
    )


def test_the_first_snapshot_of_a_fresh_session_has_no_parent() -> None:
    """There is nothing before it, whatever other sessions have."""
    assert parent.before(_session(), [_taken("a", 0, "other")]) is None


def test_a_snapshot_comes_after_the_last_one_of_its_session() -> None:
    """Those of one life of a session follow each other."""
    assert parent.before(_session(), [_taken("a", 0), _taken("b", 0)]) == "b"


def test_after_a_rewind_later_snapshots_are_not_ancestors() -> None:
    """The snapshot rewound to is the parent, not one of the abandoned life."""
    found = [_taken("a", 0), _taken("b", 0)]

    assert parent.before(_session(parent_snapshot_id="a", generation=1), found) == "a"
    assert parent.before(_session(parent_snapshot_id="a", generation=1), [*found, _taken("c", 1)]) == "c"


def test_a_removed_parent_is_replaced_by_the_one_before_it() -> None:
    """The nearest that still exists is the parent."""
    session = _session(parent_snapshot_id="gone", generation=1, details=SessionDetails({"ancestor": "a"}))

    assert parent.before(session, [_taken("a", 0)]) == "a"
    assert parent.before(session, []) is None
