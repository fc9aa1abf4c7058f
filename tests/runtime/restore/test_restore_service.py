"""Restores and rewinds: refusals, and failures that leave existing sessions unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.engine.fake_engine import FakeEngine
from tests.runtime.orchestration import context_of, left, running, snapshot

from holdfast.base.home import Home
from holdfast.errors import InvalidArgument, RestoreFailed, SessionBusy, SessionError, SnapshotDamaged
from holdfast.runtime.operations.context import Context
from holdfast.runtime.restore import restore_service, resume_session, rewind
from holdfast.runtime.restore.rewind import RewindOptions
from holdfast.runtime.sessions import after_capture
from holdfast.runtime.store.rows import OperationRow, SessionRow, SnapshotRow

DISCARDED = RewindOptions(keep=None, discard=True, force=False, reason=None)


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def context(home: Home, engine: FakeEngine) -> Context:
    return context_of(home, engine)


@pytest.fixture
def session(context: Context, engine: FakeEngine) -> SessionRow:
    return running(context, engine)


@pytest.fixture
def taken(context: Context, session: SessionRow) -> SnapshotRow:
    return snapshot(context, session, "taken")


def test_a_snapshot_without_a_manifest_is_marked_and_restores_nothing(
    context: Context, engine: FakeEngine, taken: SnapshotRow
) -> None:
    with pytest.raises(SnapshotDamaged):
        restore_service.restore(context, taken, "copy", 2)
    assert context.store.snapshot(taken.id).state == "damaged"
    found = left(context, engine)
    assert (found["sessions"], found["operations"], found["containers"]) == (["work"], [], ["c-work"])
    with pytest.raises(SnapshotDamaged, match=r"cannot use snapshot taken"):
        restore_service.restore(context, context.store.snapshot(taken.id), "copy", 1)


def test_an_unfinished_snapshot_is_not_restored(context: Context, session: SessionRow) -> None:
    pending = context.store.add_snapshot(session.id, "live", label="half")
    with pytest.raises(SnapshotDamaged, match="not complete"):
        restore_service.restore(context, pending, None, 1)
    with pytest.raises(SnapshotDamaged, match="not complete"):
        rewind.rewind(context, session, pending, DISCARDED)


@pytest.fixture
def bringing_up(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replaces what a restore does with the snapshot and the engine by a function of the rows."""

    class Restoring:
        rung = "live"
        manifest: Any = type("Manifest", (), {"image": "sha256:image", "generation": 0, "options": {}})

        def __init__(self, context: Context, row: SnapshotRow, *_: Any, **__: Any) -> None:
            self.context, self.snapshot = context, row

        def options(self, *_: Any) -> dict[str, Any]:
            return {}

    def replace(bring_up: Callable[..., Any]) -> None:
        Restoring.bring_up = Restoring.containers = bring_up  # type: ignore[attr-defined]
        monkeypatch.setattr(restore_service, "Restoring", Restoring)
        monkeypatch.setattr(resume_session, "Restoring", Restoring)
        monkeypatch.setattr(rewind, "Restoring", Restoring)

    return replace


def test_a_copy_that_fails_takes_the_others_with_it(
    context: Context, engine: FakeEngine, taken: SnapshotRow, bringing_up: Callable[..., None]
) -> None:
    """Containers and rows of all copies are removed; the parent is not."""

    def fail(_restoring: Any, rows: list[SessionRow], operation: OperationRow) -> None:
        assert [row.name for row in rows] == ["copy-1", "copy-2"]
        assert context.store.operations.open() == [operation]
        assert operation.details.session_ids == [row.id for row in rows]
        engine.container("c-copy-1", holdfast_operation=operation.id)
        raise RestoreFailed("the second one")

    bringing_up(fail)
    with pytest.raises(RestoreFailed):
        restore_service.restore(context, taken, "copy", 2)
    found = left(context, engine)
    assert (found["sessions"], found["operations"], found["containers"]) == (["work"], [], ["c-work"])


def test_a_suspended_session_that_cannot_be_resumed_stays_suspended(
    context: Context,
    engine: FakeEngine,
    session: SessionRow,
    taken: SnapshotRow,
    bringing_up: Callable[..., None],
) -> None:
    with pytest.raises(SessionError, match="not suspended"):
        resume_session.resume(context, session)
    engine.kill_remove("c-work")
    context.store.update_session(
        session.id, state="suspended", container_id=None, parent_snapshot_id=taken.id
    )

    def fail(_restoring: Any, *_: Any) -> None:
        raise RestoreFailed("cannot", hint="why")

    bringing_up(fail)
    with pytest.raises(RestoreFailed) as failed:
        resume_session.resume(context, context.store.session(session.id))
    assert failed.value.hint.startswith("why; the session stays suspended")
    assert context.store.session(session.id).state == "suspended"
    assert left(context, engine)["operations"] == []


def test_a_rewind_is_refused_where_it_makes_no_sense(
    context: Context, engine: FakeEngine, session: SessionRow, taken: SnapshotRow
) -> None:
    """Keeping what is discarded; a snapshot of another line; a session that is being made."""
    with pytest.raises(InvalidArgument, match="not both"):
        rewind.rewind(
            context, session, taken, RewindOptions(keep="now", discard=True, force=False, reason=None)
        )
    other = running(context, engine, "other")
    with pytest.raises(InvalidArgument, match="not in its lineage"):
        rewind.rewind(context, other, taken, DISCARDED)
    context.store.update_session(session.id, state="creating")
    with pytest.raises(SessionBusy, match="being made"):
        rewind.rewind(context, session, taken, DISCARDED)
    assert left(context, engine)["operations"] == []


def test_a_rewind_that_fails_lets_the_old_container_continue(
    context: Context,
    engine: FakeEngine,
    session: SessionRow,
    taken: SnapshotRow,
    bringing_up: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was paused while the new one came up, and has its place in the network again."""
    monkeypatch.setattr("holdfast.engine.networks.leave", lambda *_: engine.asked.append("leave"))
    monkeypatch.setattr("holdfast.engine.networks.join", lambda *_: engine.asked.append("join"))
    monkeypatch.setattr("holdfast.runtime.egress.attempt_log.glance", lambda *_: None)
    monkeypatch.setattr(after_capture, "answers", lambda *_: True)
    monkeypatch.setattr(after_capture, "_mend", lambda *_: None)  # asks the checkpointer

    def fail(_restoring: Any, *_: Any) -> None:
        assert engine.states["c-work"].paused
        raise RestoreFailed("cannot")

    bringing_up(fail)
    with pytest.raises(RestoreFailed):
        rewind.rewind(context, session, taken, DISCARDED)
    state = engine.states["c-work"]
    assert (state.running, state.paused) == (True, False)
    assert context.store.session(session.id) == session
    assert left(context, engine)["operations"] == []
