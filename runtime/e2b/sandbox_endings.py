"""How sandboxes end: removed with what was captured for them alone, or paused."""

from __future__ import annotations

from contextlib import suppress

from holdfast.errors import SessionError, SnapshotInUse, SnapshotNotFound
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.capture import snapshot_service
from holdfast.runtime.e2b import sandbox_facts
from holdfast.runtime.e2b.sandbox_facts import SandboxFacts
from holdfast.runtime.store.rows import SessionRow


def kill(hf: Holdfast, row: SessionRow) -> None:
    """Remove a session. Snapshots that were asked for stay.

    For clients it is gone at once: one whose answer is cut by this asks whether it still runs.

    Raises:
        SessionBusy: it is being captured; it is removed afterwards.
        SessionNotFound: it is gone.
    """
    sandbox_facts.change(hf.store, row.id, lambda facts: facts.model_copy(update={"ended": True}))
    hf.remove_session(row.id)
    _sweep(hf, row)


def pause(hf: Holdfast, row: SessionRow, *, memory: bool = True) -> None:
    """Suspend a session; its clock stops. Without `memory` its processes end, and it begins with new ones.

    Raises:
        LiveUnsupported, CaptureFailed, SessionBusy, SessionDead, SessionError: it continues, or does not run.
    """
    if memory:
        Session(hf.context, row).suspend()
    else:
        snapshot_service.suspend(hf.context, row, kind="filesystem")
    sandbox_facts.change(hf.store, row.id, lambda facts: facts.paused(memory=memory))
    _sweep(hf, row)


def resume(hf: Holdfast, row: SessionRow) -> SessionRow:
    """Resume a suspended session, unless another caller has just done it.

    Raises:
        RestoreFailed, SessionBusy, SessionError: it stays suspended.
    """
    try:
        return Session(hf.context, row).resume().row
    except SessionError:
        now = hf.store.session(row.id)
        if now.state != "running":
            raise
        return now


def _sweep(hf: Holdfast, row: SessionRow) -> None:
    """Remove the captures of earlier pauses and of forks: clients do not know them, and cannot."""
    if SandboxFacts.of(row) is None:
        return
    needed = {each.parent_snapshot_id for each in hf.store.sessions()}
    of_its_parent = hf.store.find_snapshot(row.parent_snapshot_id)
    for taken in [*hf.store.snapshots(row.id), *([of_its_parent] if of_its_parent else ())]:
        own = str(taken.details.get("actor", "")).endswith(":e2b") and taken.details.auto is None
        if own and not (taken.label or taken.reason or taken.pinned or taken.id in needed):
            with suppress(SnapshotInUse, SnapshotNotFound):
                hf.remove_snapshot(taken.id)
