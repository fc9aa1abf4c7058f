"""The failure record: bounded, harmless, and readable by everyone, not only its writer."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from holdfast.snapshots import failure, manifest
from holdfast.snapshots.failure import Debugger, Failure
from holdfast.snapshots.manifest import Manifest


def kept(record: Failure | None) -> Manifest:
    return Manifest(
        id="0" * 12,
        kind="filesystem",
        label=None,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        session="1" * 12,
        session_name="work",
        generation=0,
        parent=None,
        image="sha256:1",
        options={},
        processes=None,
        files=[],
        failure=record,
    )


def test_long_values_of_a_guest_are_cut_and_not_refused() -> None:
    """Long texts lose their ends, the tail its beginning; controls are dropped; nothing is raised."""
    told = Failure.parse(
        {
            "reason": "exception",
            "command": "x" * 100_000,
            "message": "a\x1b[31mb\x00c\nd\u202e",
            "tail": "old\n" * 50_000 + "last",
            "where": "tests/test_a.py::test_b\n[x]" + "y" * 1000,
            "unknown": 1,
        }
    )
    assert told is not None
    assert len(told.command) == failure.TEXT
    assert told.message == "a[31mbc\nd"
    assert len(told.tail) == failure.TAIL
    assert told.tail.endswith("old\nlast")
    assert told.where is not None
    assert told.where.startswith("tests/test_a.py::test_b [x]y")
    assert len(told.where) == failure.LINE


def test_an_invalid_failure_record_is_ignored() -> None:
    """A record without a known reason, or with a number where none can be, is not taken."""
    assert Failure.parse({"reason": "magic"}) is None
    assert Failure.parse({"reason": "failed", "exit_code": "many"}) is None
    assert failure.of_row({"failure": "text"}) is None
    assert failure.of_row({}) is None


def test_a_record_goes_through_the_details_and_the_manifest(tmp_path: Path) -> None:
    """A written record is read again, in both places."""
    record = Failure(
        reason="hang", command="make", message="waits for a password", debugger=Debugger(program="ssh")
    )
    assert failure.of_row({"failure": record}) == record
    assert failure.of_row(json.loads(json.dumps({"failure": record.as_details()}))) == record
    manifest.write(tmp_path, kept(record))
    assert manifest.read(tmp_path).failure == record


def test_a_manifest_without_a_record_can_be_read_by_older_versions(tmp_path: Path) -> None:
    """Fields that were added later are left out where there is nothing to say; required ones are not."""
    manifest.write(tmp_path, kept(None))
    found = json.loads((tmp_path / manifest.FILE).read_text())
    assert "failure" not in found
    assert found["label"] is None
    assert manifest.read(tmp_path).failure is None


def test_a_record_has_a_title() -> None:
    """One line says what failed and how."""
    assert Failure(reason="failed", command="make test", exit_code=2).title == "make test failed with 2"
    assert Failure(reason="timeout", command="make").title == "make took too long"
    assert Failure(reason="hang", command="ssh\nx").title == "ssh x hangs"
    assert Failure(reason="exception", where="a.py::b").title == "a.py::b raised an exception"
