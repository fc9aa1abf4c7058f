"""The records of sessions, snapshots and operations are read by one reader, however old or odd the row."""

import json
from dataclasses import asdict
from typing import Any

from holdfast.runtime.store.row_details import OperationDetails, RecordsEnd, SessionDetails, SnapshotDetails


def test_written_values_are_read_again() -> None:
    """They pass through JSON, and None is not kept at all."""
    moment = RecordsEnd(7, 12.5, {"main": 100})
    kept = SnapshotDetails.of(generation=2, auto={"trigger": "idle"}, failure=None, moment=asdict(moment))
    found = SnapshotDetails(json.loads(json.dumps(kept.plus(base="", damage="why", storage={"own": 1}))))
    assert "failure" not in found
    assert (found.moment, found.generation, found.auto) == (moment, 2, {"trigger": "idle"})
    assert (found.base, found.has_base, found.damage, found.storage) == (None, True, "why", {"own": 1})
    assert found.plus(damage=None).damage == ""
    assert found.inherited == {"base": "", "damage": "why"}
    assert set(found.portable) == {"moment", "base"}


def test_rows_of_older_versions_lack_things() -> None:
    """Nothing is known then, and nothing fails."""
    rows: tuple[dict[str, Any], ...] = (
        {},
        {"moment": None, "auto": True, "storage": 5, "origin": [], "note": "x", "dropped": []},
    )
    for old in rows:
        found = SnapshotDetails(old)
        assert found.moment == RecordsEnd()
        assert (found.auto, found.storage, found.origin, found.note) == (None, None, None, None)
        assert (found.generation, found.base, found.has_base, found.dropped) == (0, None, False, False)
    session = SessionDetails(policy=3, unhealthy=None, hooks="x")
    assert (session.policy, session.hooks, session.rewound, session.trouble("c")) == (None, [], {}, "")
    operation = OperationDetails()
    assert (operation.aside, operation.copies, operation.session_ids) == ("", (None, []), [])


def test_trouble_is_that_of_one_container() -> None:
    """Another container of the session is not what did not answer."""
    marked = SessionDetails().plus(unhealthy={"container": "c1", "why": "silent"})
    assert (marked.trouble("c1"), marked.trouble("c2"), marked.marked_unhealthy) == ("silent", "", True)


def test_operations_record_their_products() -> None:
    """The notes of each step of a rewind are there for a different process."""
    known = OperationDetails.of(snapshot="s1", old=None).plus(aside=".x", addresses=["10.0.0.2"])
    assert (known.snapshot, known.old, known.aside, known.addresses) == ("s1", None, ".x", ["10.0.0.2"])
    assert (known.proven, known.plus(proven="c").proven) == (None, "c")
