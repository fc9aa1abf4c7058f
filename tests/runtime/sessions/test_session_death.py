"""A session is found dead after its container has ended, unless an operation is ending the container."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from holdfast.base.home import Home
from holdfast.errors import SessionDead, SessionError
from holdfast.runtime.operations.context import Context
from holdfast.runtime.sessions import health
from holdfast.runtime.store.rows import OperationKind, SessionRow


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (None, "dead"),
        (OperationKind.SNAPSHOT, "dead"),
        (OperationKind.SUSPEND, "running"),
        (OperationKind.REMOVE, "running"),
    ],
)
def test_a_removed_container_is_a_dead_session(
    home: Home, monkeypatch: pytest.MonkeyPatch, kind: OperationKind | None, found: str
) -> None:
    monkeypatch.setattr(Context, "engine", SimpleNamespace(inspect=lambda _: None))
    context = Context(home)
    row = context.store.add_session("work", "image", {})
    row = context.store.update_session(row.id, state="running", container_id="c")
    operation = kind and context.store.operations.begin(kind, session_id=row.id)
    assert health.observed(context, row, set()).state == found
    with pytest.raises(SessionError) as told:
        health.check(context, row.id)
    assert isinstance(told.value, SessionDead) == (kind is not OperationKind.SUSPEND)
    if operation:
        context.store.operations.end(operation.id, "failed")
        assert health.observed(context, row, set()).state == "dead"


def test_a_suspension_that_completes_meanwhile(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Context, "engine", SimpleNamespace(inspect=lambda _: None))
    context = Context(home)
    row = context.store.add_session("work", "image", {})
    row = context.store.update_session(row.id, state="running", container_id="c")
    operation = context.store.operations.begin(OperationKind.SUSPEND, session_id=row.id)
    suspended = {row.id: {"state": "suspended", "container_id": None}}
    completing = threading.Thread(
        target=lambda: context.store.operations.complete(operation.id, sessions=suspended)
    )
    ending = health._ending

    def asked(context: Context, row: SessionRow) -> OperationKind | None:
        completing.start()
        completing.join(0.5)  # with nothing in its way it is done by then
        return ending(context, row)

    monkeypatch.setattr(health, "_ending", asked)
    health.observed(context, row, set())
    completing.join()
    assert context.store.session(row.id).state == "suspended"


def test_a_resume_that_gives_it_another_container_meanwhile(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = Context(home)
    row = context.store.add_session("work", "image", {})
    row = context.store.update_session(row.id, state="running", container_id="old")

    def inspected(_container: str) -> None:
        context.store.update_session(row.id, container_id="new")

    monkeypatch.setattr(Context, "engine", SimpleNamespace(inspect=inspected))
    health.check(context, row.id)
    assert context.store.session(row.id).state == "running"
