"""The record of a snapshot on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.errors import SnapshotDamaged
from holdfast.snapshots import record
from holdfast.snapshots.checkpointer.record import judged_limits
from holdfast.snapshots.record import (
    RecordedDescriptor,
    RecordedFile,
    RecordedProcess,
    RecordedTree,
    StateRecord,
)


def test_written_values_are_read(tmp_path: Path) -> None:
    """Nothing is lost on the way, defaults included."""
    process = RecordedProcess(
        pid=3, ppid=0, pgid=3, sid=3, state="alive", descriptors=[RecordedDescriptor(fd=1, kind="pipe")]
    )
    kept = StateRecord(
        tree=RecordedTree(processes=[process]),
        files=[RecordedFile(path="/a", digest="x")],
        kernels={"main": {}},
    )
    record.write(tmp_path, kept)
    assert record.read(tmp_path) == kept


def test_a_snapshot_of_before_has_none(tmp_path: Path) -> None:
    """A missing record is not an error."""
    assert record.read(tmp_path) is None


@pytest.mark.parametrize("data", [b"", b"not gzip", b'{"format": 1}'])
def test_damage_is_reported(tmp_path: Path, data: bytes) -> None:
    """A file that is not a record is an error of the snapshot."""
    (tmp_path / record.FILE).write_bytes(data)
    with pytest.raises(SnapshotDamaged):
        record.read(tmp_path)


def test_every_written_field_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot with a record that is cut short could not be restored: the capture fails instead."""
    monkeypatch.setattr(record, "MAX_BYTES", 100)
    with pytest.raises(record.RecordTooLarge):
        record.write(
            tmp_path, StateRecord(tree=RecordedTree(processes=[]), files=[RecordedFile(path="/" + "x" * 100)])
        )
    assert not list(tmp_path.iterdir())
    record.write(tmp_path, StateRecord(tree=RecordedTree(processes=[])))
    assert record.read(tmp_path) is not None


def test_the_judge_takes_the_longest_answer_there_is() -> None:
    """The host names all files to be looked at; a session can choose their names."""
    files = ["/" + "\x01" * 4095] * judged_limits.MAX_FILES
    assert len(json.dumps({"go": True, "files": files})) < judged_limits.MAX_ANSWER
