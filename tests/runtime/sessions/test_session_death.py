"""A session is found dead when its container is gone, unless an operation is ending the container."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from holdfast.base.home import Home
from holdfast.runtime.operations.context import Context
from holdfast.runtime.sessions import health
from holdfast.runtime.store.rows import OperationKind


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (None, "dead"),
        (OperationKind.SNAPSHOT, "dead"),
        (OperationKind.SUSPEND, "running"),
        (OperationKind.REMOVE, "running"),
    ],
)
def test_a_container_that_is_gone(
    home: Home, monkeypatch: pytest.MonkeyPatch, kind: OperationKind | None, found: str
) -> None:
    monkeypatch.setattr(Context, "engine", SimpleNamespace(inspect=lambda _: None))
    context = Context(home)
    row = context.store.add_session("work", "image", {})
    row = context.store.update_session(row.id, state="running", container_id="c")
    operation = kind and context.store.operations.begin(kind, session_id=row.id)
    assert health.observed(context, row, set()).state == found
    if operation:
        context.store.operations.end(operation.id, "failed")
        assert health.observed(context, row, set()).state == "dead"
