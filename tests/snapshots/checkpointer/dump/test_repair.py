"""Repair after a capture that was killed."""

from __future__ import annotations

import pytest

from holdfast.snapshots.checkpointer.dump import repair


@pytest.mark.parametrize("error", [FileNotFoundError, PermissionError])
def test_a_tree_that_ends_meanwhile_needs_no_repair(
    monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    """A suspension ends it, and CRIU with it; the kernel has two errors for namespaces of such a process."""

    def gone(*_: object) -> None:
        raise error

    monkeypatch.setattr(repair, "Holding", gone)
    monkeypatch.setattr("holdfast.snapshots.checkpointer.ground.pidfd_files.sockets", lambda _root: iter(()))
    assert repair.mend(1 << 22) == 0
