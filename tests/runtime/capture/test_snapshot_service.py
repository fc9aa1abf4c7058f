"""A capture as one operation: whichever step fails, the session continues and nothing else is left."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.fake_engine import FakeEngine
from tests.runtime.orchestration import context_of, left, running

from holdfast.base.home import Home
from holdfast.errors import CaptureFailed, InvalidArgument, SessionDead, SessionError
from holdfast.runtime.capture import capture, snapshot_service
from holdfast.runtime.operations.context import Context
from holdfast.runtime.sessions import after_capture
from holdfast.runtime.store.rows import SessionRow

NOTHING: dict[str, list[str]] = {"snapshots": [], "operations": [], "staging": []}


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def context(home: Home, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> Context:
    monkeypatch.setattr(after_capture, "answers", lambda *_: True)
    monkeypatch.setattr(after_capture, "_mend", lambda *_: None)  # asks the checkpointer
    return context_of(home, engine)


@pytest.fixture
def session(context: Context, engine: FakeEngine) -> SessionRow:
    return running(context, engine)


@pytest.mark.parametrize("kind", ["live", "filesystem"])
@pytest.mark.parametrize("error", [CaptureFailed("cannot"), KeyboardInterrupt()])
def test_a_failing_capture_leaves_the_session_and_nothing_else(
    context: Context,
    engine: FakeEngine,
    session: SessionRow,
    monkeypatch: pytest.MonkeyPatch,
    kind: Any,
    error: BaseException,
) -> None:
    def fail(taking: Any) -> None:
        taking._staging.mkdir()
        engine.pause("c-work")
        raise error

    monkeypatch.setattr(capture.Taking, kind, fail)
    with pytest.raises(type(error)):
        snapshot_service.take(context, session, "label", kind)
    found = left(context, engine)
    assert found == {**NOTHING, "sessions": ["work"], "containers": ["c-work"]}
    assert not engine.states["c-work"].paused


def test_a_session_that_cannot_be_used_is_refused_before_anything_is_recorded(
    context: Context, engine: FakeEngine, session: SessionRow
) -> None:
    """One that ended, and one that is suspended."""
    engine.kill_remove("c-work")
    with pytest.raises(SessionDead):
        snapshot_service.take(context, session, None, "live")
    context.store.update_session(session.id, state="suspended")
    with pytest.raises(SessionError):
        snapshot_service.take(context, session, None, "live")
    assert NOTHING.items() <= left(context, engine).items()


def test_nothing_can_be_dropped_from_a_snapshot_of_files(context: Context, session: SessionRow) -> None:
    with pytest.raises(InvalidArgument, match="cannot drop anything"):
        snapshot_service.take(context, session, None, "filesystem", force_drop=("pid:9",))


def test_a_taken_label_is_refused_and_leaves_nothing(
    context: Context, engine: FakeEngine, session: SessionRow
) -> None:
    first = context.store.add_snapshot(session.id, "live", label="label")
    context.store.update_snapshot(first.id, state="ready")
    with pytest.raises(InvalidArgument, match="the label is taken"):
        snapshot_service.take(context, session, "label", "filesystem")
    assert {**NOTHING, "snapshots": ["label"]}.items() <= left(context, engine).items()
