"""Several snapshots are removed with one sweep."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.fake_engine import FakeEngine
from tests.runtime import orchestration

from holdfast.errors import SnapshotInUse
from holdfast.runtime.storage import snapshot_storage
from holdfast.snapshots import storage


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often packs were swept: reading all recipes takes seconds with thousands of snapshots."""
    found: list[int] = []
    real = storage.sweep

    def counted(*args: Any, **options: Any) -> Any:
        found.append(1)
        return real(*args, **options)

    monkeypatch.setattr(storage, "sweep", counted)
    return found


def test_one_sweep_follows_all_removals(home: Any, sweeps: list[int]) -> None:
    engine = FakeEngine()
    context = orchestration.context_of(home, engine)
    session = orchestration.running(context, engine)
    rows = [orchestration.snapshot(context, session, f"s{number}") for number in range(3)]

    snapshot_storage.remove_snapshots(context, rows)

    assert orchestration.left(context, engine)["snapshots"] == []
    assert list(home.snapshots.iterdir()) == []
    assert len(sweeps) == 1


def test_leftovers_before_a_refusal_are_swept(home: Any, sweeps: list[int]) -> None:
    """A needed one stays, and all after it; removed ones are accounted for."""
    engine = FakeEngine()
    context = orchestration.context_of(home, engine)
    session = orchestration.running(context, engine)
    rows = [orchestration.snapshot(context, session, f"s{number}") for number in range(3)]
    context.store.update_session(session.id, state="suspended", parent_snapshot_id=rows[1].id)

    with pytest.raises(SnapshotInUse):
        snapshot_storage.remove_snapshots(context, rows)

    assert orchestration.left(context, engine)["snapshots"] == ["s1", "s2"]
    assert len(sweeps) == 1
    with pytest.raises(SnapshotInUse):
        snapshot_storage.remove_snapshots(context, rows[1:])
    assert len(sweeps) == 1
