"""A home with an engine in memory, for tests of code that works through a context."""

from __future__ import annotations

from typing import Any

from tests.engine.fake_engine import FakeEngine

from holdfast.base.home import Home
from holdfast.runtime.api.controller import _fill_undo_table
from holdfast.runtime.operations.context import Context
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.runtime.store.rows import SessionRow, SnapshotRow


def context_of(home: Home, engine: FakeEngine) -> Context:
    """Return a context whose operations can be undone."""
    _fill_undo_table()
    return Context(home, connect=lambda: engine)


def running(context: Context, engine: FakeEngine, name: str = "work", **options: Any) -> SessionRow:
    """Have a session whose container runs."""
    chosen = SessionOptions.parse(**options).model_dump(mode="json")
    row = context.store.add_session(name, "sha256:image", chosen)
    engine.container(f"c-{name}", holdfast_home=context.home.digest, holdfast_session=row.id)
    context.home.run_dir(row.id).mkdir(parents=True)
    return context.store.update_session(row.id, state="running", container_id=f"c-{name}")


def snapshot(context: Context, session: SessionRow, label: str, **columns: Any) -> SnapshotRow:
    """Have a snapshot of a session, without anything in its folder."""
    row = context.store.add_snapshot(session.id, "live", label=label)
    (context.home.snapshots / row.id).mkdir()
    return context.store.update_snapshot(row.id, **{"state": "ready", **columns})


def left(context: Context, engine: FakeEngine) -> dict[str, list[str]]:
    """Return all there is: names of sessions and snapshots, open operations, containers, folders."""
    store = context.store
    return {
        "sessions": [row.name for row in store.sessions()],
        "snapshots": [row.name for row in store.snapshots(pending=True)],
        "operations": [row.kind for row in store.operations.open()],
        "containers": sorted(engine.states),
        "staging": [path.name for path in context.home.staging.iterdir()],
    }
